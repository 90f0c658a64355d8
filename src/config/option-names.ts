/** First words of flags that are sections of the config file: `--l1-size` is `size` under `l1`. */
export const SECTIONS: readonly string[] = [
  'http',
  'mp',
  'prometheus',
  'observability',
  'l0',
  'l1',
  'transfer',
  'tokenizer',
  'activities',
]

/** Key of an option in the config file, with a dot between section and key. */
export function fileKeyOf(flag: string): string {
  const name = flag.slice(2)
  const dash = name.indexOf('-')
  const section = name.slice(0, dash)
  return SECTIONS.includes(section) ? `${section}.${name.slice(dash + 1)}` : name
}

/** Environment variable of an option. */
export function envOf(flag: string): string {
  return `KVTIER_${flag.slice(2).replaceAll('-', '_').toUpperCase()}`
}

/** The name closest to one that was mistyped, or undefined when none is close. */
export function nearestName(mistyped: string, names: Iterable<string>): string | undefined {
  let best: string | undefined
  let bestDistance = Math.max(2, Math.floor(mistyped.length / 3)) + 1
  for (const name of names) {
    const distance = editDistance(mistyped.slice(0, 80), name)
    if (distance < bestDistance) {
      best = name
      bestDistance = distance
    }
  }
  return best
}

/** `; did you mean X?`, or nothing. */
export function suggestion(mistyped: string, names: Iterable<string>): string {
  const nearest = nearestName(mistyped, names)
  return nearest === undefined ? '' : `; did you mean ${nearest}?`
}

/** A mistyped name as one short line: what was typed may hold anything. */
export function printable(name: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
  return name.slice(0, 80).replace(/[\u0000-\u001f\u007f]/g, '?')
}

// Levenshtein, one row at a time.
function editDistance(left: string, right: string): number {
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let i = 1; i <= left.length; i += 1) {
    const current = [i]
    for (let j = 1; j <= right.length; j += 1) {
      const substitute = previous[j - 1]! + (left[i - 1] === right[j - 1] ? 0 : 1)
      current.push(Math.min(substitute, previous[j]! + 1, current[j - 1]! + 1))
    }
    previous = current
  }
  return previous[right.length]!
}
