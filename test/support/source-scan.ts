/**
 * A reader of TypeScript text for the tests that judge the tree: no parser, only what those tests need.
 *
 *     text ──mask──> code      comments blanked, strings kept: imports are read from here
 *                    bare      string and regex contents blanked too: identifiers are looked for here
 *
 * Blanked characters become spaces and line breaks stay, so that offsets and line numbers agree in all three.
 */
export interface SourceText {
  readonly code: string
  readonly bare: string
}

/** How a file names another: `type` imports vanish at run time, `worker` ones run on another thread. */
export type ImportKind = 'static' | 'type' | 'dynamic' | 'worker'

export interface Import {
  readonly specifier: string
  readonly kind: ImportKind
  readonly line: number
}

const REGEX_BEFORE = /(?:^|[(,=:[!&|?{};+\-*%~^<>]|\b(?:return|typeof|case|in|of|do|else|throw|await|yield))$/

/** Blanks what is not code. Template literals keep the code of their `${}` parts. */
export function scan(text: string): SourceText {
  const code = text.split('')
  const bare = code.slice()
  const braces: number[] = [] // open braces inside each `${` being read
  let at = 0

  const blank = (chars: string[], from: number, to: number): void => {
    for (let index = from; index < to && index < chars.length; index += 1) if (chars[index] !== '\n') chars[index] = ' '
  }
  const quoted = (quote: string): void => {
    const start = at + 1
    for (at = start; at < text.length && text[at] !== quote && text[at] !== '\n'; at += 1)
      if (text[at] === '\\') at += 1
    blank(bare, start, at)
    at += 1
  }
  /** Reads template text up to its end or the next `${`. */
  const template = (): void => {
    const start = at
    for (; at < text.length && text[at] !== '`'; at += 1) {
      if (text[at] === '\\') at += 1
      else if (text.startsWith('${', at)) {
        blank(bare, start, at)
        braces.push(0)
        at += 2
        return
      }
    }
    blank(bare, start, at)
    at += 1
  }
  const regex = (): void => {
    const start = at + 1
    let isClass = false
    for (at = start; at < text.length && text[at] !== '\n' && (isClass || text[at] !== '/'); at += 1) {
      if (text[at] === '\\') at += 1
      else if (text[at] === '[') isClass = true
      else if (text[at] === ']') isClass = false
    }
    blank(bare, start, at)
    blank(code, start, at)
    at += 1
  }
  const comment = (end: number): void => {
    blank(code, at, end)
    blank(bare, at, end)
    at = end
  }

  if (text.startsWith('#!')) comment(lineEnd(text, 0))
  while (at < text.length) {
    const char = text[at]!
    if (text.startsWith('//', at)) comment(lineEnd(text, at))
    else if (text.startsWith('/*', at)) comment(blockEnd(text, at))
    else if (char === "'" || char === '"') quoted(char)
    else if (char === '`') {
      at += 1
      template()
    } else if (
      char === '/' &&
      REGEX_BEFORE.test(
        bare
          .slice(Math.max(0, at - 40), at)
          .join('')
          .trimEnd(),
      )
    )
      regex()
    else if (char === '{' && braces.length > 0) {
      braces[braces.length - 1]! += 1
      at += 1
    } else if (char === '}' && braces.length > 0) {
      at += 1
      if (braces.at(-1) === 0) {
        braces.pop()
        template()
      } else braces[braces.length - 1]! -= 1
    } else at += 1
  }
  return { code: code.join(''), bare: bare.join('') }
}

function lineEnd(text: string, from: number): number {
  const end = text.indexOf('\n', from)
  return end < 0 ? text.length : end
}

function blockEnd(text: string, from: number): number {
  const end = text.indexOf('*/', from + 2)
  return end < 0 ? text.length : end + 2
}

const FORMS: readonly (readonly [RegExp, ImportKind])[] = [
  [/\b(?:import|export)\s+type\b[^'"`;=]*?\bfrom\s*(['"])(.+?)\1/g, 'type'],
  [/\b(?:import|export)\s+(?!type\s*[\w{*])[\w\s{},*$]*?\bfrom\s*(['"])(.+?)\1/g, 'static'],
  [/\bimport\s*(['"])(.+?)\1/g, 'static'],
  [/(?<!\btypeof\s*)\bimport\s*\(\s*(['"`])(.+?)\1/g, 'dynamic'],
  [/\btypeof\s+import\s*\(\s*(['"`])(.+?)\1/g, 'type'],
  [/\b(?:require|require\.resolve|import\.meta\.resolve)\s*\(\s*(['"`])(.+?)\1/g, 'dynamic'],
  [/\bcreateRequire\s*\([^()]*\)\s*\(\s*(['"`])(.+?)\1/g, 'dynamic'],
  [/\bnew\s+URL\s*\(\s*(['"`])(.+?)\1\s*,\s*import\.meta\.url/g, 'worker'],
  [/\bworkerUrl\s*\(\s*import\.meta\.url\s*,\s*(['"`])(.+?)\1/g, 'worker'],
]

/** Every module a file names, in any form, in the order of the text. */
export function importsOf(source: SourceText): Import[] {
  const found: (Import & { readonly at: number })[] = []
  for (const [form, kind] of FORMS) {
    for (const match of source.code.matchAll(form)) {
      // A keyword that `bare` lacks lies inside a string.
      if (source.bare[match.index] !== source.code[match.index]) continue
      const specifier = form.source.includes('workerUrl') ? `${match[2]}.ts` : match[2]!
      found.push({ specifier, kind, line: lineOf(source.code, match.index), at: match.index })
    }
  }
  return found.sort((a, b) => a.at - b.at).map(({ specifier, kind, line }) => ({ specifier, kind, line }))
}

/** The line of an offset, from 1. */
export function lineOf(text: string, at: number): number {
  let line = 1
  for (let index = text.indexOf('\n'); index >= 0 && index < at; index = text.indexOf('\n', index + 1)) line += 1
  return line
}
