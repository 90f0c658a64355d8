export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface ParsedExposition {
  /** Type by family name. */
  readonly types: ReadonlyMap<string, string>
  readonly help: ReadonlyMap<string, string>
  readonly samples: readonly Sample[]
  readonly hasEof: boolean
}

const ESCAPES: Record<string, string> = { n: '\n', '"': '"', '\\': '\\' }

function unquote(text: string): string {
  return text.replace(/\\(.)/gs, (_all, symbol: string) => ESCAPES[symbol] ?? `\\${symbol}`)
}

function parseSample(line: string): Sample {
  const match = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)$/.exec(
    line,
  )
  if (match === null) throw new Error(`not a sample line: ${line}`)
  const labels: Record<string, string> = {}
  for (const [, name, value] of (match[2] ?? '').matchAll(/([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\.)*)"/g)) {
    if (name! in labels) throw new Error(`label twice: ${line}`)
    labels[name!] = unquote(value!)
  }
  const value = Number(match[3]!.replace('+Inf', 'Infinity').replace('-Inf', '-Infinity'))
  return { name: match[1]!, labels, value }
}

/** Reads Prometheus text or OpenMetrics, strictly: an unreadable line or a series told twice throws. */
export function parseExposition(text: string): ParsedExposition {
  const types = new Map<string, string>()
  const help = new Map<string, string>()
  const samples: Sample[] = []
  const seen = new Set<string>()
  const lines = text.split('\n')
  if (lines.pop() !== '') throw new Error('no newline at the end')
  const hasEof = lines.at(-1) === '# EOF'
  for (const line of hasEof ? lines.slice(0, -1) : lines) {
    const [, kind, name, rest] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? []
    if (kind === 'TYPE') {
      if (types.has(name!)) throw new Error(`type twice: ${line}`)
      types.set(name!, rest!)
    } else if (kind === 'HELP') {
      help.set(name!, rest!)
    } else {
      const sample = parseSample(line)
      const key = seriesKey(sample)
      if (seen.has(key)) throw new Error(`series twice: ${line}`)
      seen.add(key)
      samples.push(sample)
    }
  }
  return { types, help, samples, hasEof }
}

export function seriesKey({ name, labels }: Pick<Sample, 'name' | 'labels'>): string {
  return JSON.stringify([name, Object.entries(labels).sort(([a], [b]) => (a < b ? -1 : 1))])
}

/** Value of a series, or undefined when it is not there. */
export function seriesValue(
  parsed: ParsedExposition,
  name: string,
  labels: Record<string, string> = {},
): number | undefined {
  const key = seriesKey({ name, labels })
  return parsed.samples.find((sample) => seriesKey(sample) === key)?.value
}
