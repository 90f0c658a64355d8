import type { JinjaValue } from './jinja-values.ts'

// How Python writes values, where JavaScript writes them in another way. Floats that are whole numbers cannot be told
// from integers in JSON that JavaScript has read.

/** What str.strip() takes away; JavaScript's trim() differs in U+FEFF, U+0085 and the separators U+001C to U+001F. */
const SPACE = '\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000'
const SPACES_BEFORE = new RegExp(`^[${SPACE}]+`, 'u')
const SPACES_BEHIND = new RegExp(`[${SPACE}]+$`, 'u')

/** str.strip(), lstrip() and rstrip(). @param letters what is taken away; undefined = white space. */
export function stripped(text: string, letters: string | undefined, sides: 'both' | 'left' | 'right'): string {
  if (letters === undefined) {
    const begun = sides === 'right' ? text : text.replace(SPACES_BEFORE, '')
    return sides === 'left' ? begun : withoutSpacesBehind(begun)
  }
  const set = new Set(letters)
  const all = [...text]
  let from = 0
  let to = all.length
  if (sides !== 'right') while (from < to && set.has(all[from]!)) from += 1
  if (sides !== 'left') while (to > from && set.has(all[to - 1]!)) to -= 1
  return all.slice(from, to).join('')
}

// Character by character from the end: an expression would try every run of spaces of a long text.
function withoutSpacesBehind(text: string): string {
  let to = text.length
  while (to > 0 && SPACES_BEHIND.test(text[to - 1]!)) to -= 1
  return text.slice(0, to)
}

/** str(value) */
export function textOf(value: JinjaValue): string {
  if (value.type === 'StringValue') return value.value as string
  return value.type === 'UndefinedValue' ? '' : reprOf(value)
}

/** repr(value) */
function reprOf(value: JinjaValue): string {
  switch (value.type) {
    case 'StringValue':
      return quoted(value.value as string)
    case 'IntegerValue':
      return String(value.value)
    case 'FloatValue':
      return floatText(value.value as number)
    case 'BooleanValue':
      return value.value === true ? 'True' : 'False'
    case 'NullValue':
      return 'None'
    case 'UndefinedValue':
      return 'Undefined'
    case 'ArrayValue':
      return `[${(value.value as JinjaValue[]).map(reprOf).join(', ')}]`
    case 'TupleValue': {
      const items = (value.value as JinjaValue[]).map(reprOf)
      return items.length === 1 ? `(${items[0]},)` : `(${items.join(', ')})`
    }
    case 'ObjectValue':
    case 'KeywordArgumentsValue': {
      const entries = [...(value.value as Map<string, JinjaValue>)]
      return `{${entries.map(([key, one]) => `${quoted(key)}: ${reprOf(one)}`).join(', ')}}`
    }
    default:
      throw new Error(`a ${value.type} has no text`)
  }
}

/** repr() of a str: in single quotes, unless that alone would need an escape. */
function quoted(text: string): string {
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'"
  const escaped = text
    .replaceAll('\\', '\\\\')
    .replaceAll(quote, `\\${quote}`)
    .replace(/[\p{C}\p{Z}]/gu, (letter) => (letter === ' ' ? letter : escapeOf(letter)))
  return `${quote}${escaped}${quote}`
}

function escapeOf(letter: string): string {
  const named = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }[letter]
  if (named !== undefined) return named
  const code = letter.codePointAt(0)!
  if (code <= 0xff) return `\\x${code.toString(16).padStart(2, '0')}`
  return code <= 0xffff ? `\\u${code.toString(16).padStart(4, '0')}` : `\\U${code.toString(16).padStart(8, '0')}`
}

/** repr() of a float: an exponent from 1e16 on and below 1e-4, with two digits at least. */
export function floatText(value: number): string {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'nan' : value < 0 ? '-inf' : 'inf'
  const size = Math.abs(value)
  if (size !== 0 && (size >= 1e16 || size < 1e-4)) {
    return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2')
  }
  if (Object.is(value, -0)) return '-0.0'
  return Number.isInteger(value) ? `${value}.0` : String(value)
}

export interface JsonStyle {
  readonly indent: number | null
  readonly ensureAscii: boolean
  /** [between items, behind keys] */
  readonly separators: readonly [string, string] | null
  readonly sortKeys: boolean
}

/** json.dumps(value) */
export function jsonOf(value: JinjaValue, style: JsonStyle, depth = 0): string {
  const { indent, ensureAscii, sortKeys } = style
  const [between, behindKey] = style.separators ?? [indent === null ? ', ' : ',', ': ']
  const string = (text: string) => {
    const json = JSON.stringify(text)
    return ensureAscii ? json.replace(/[\x7f-\uffff]/g, escapedUnit) : json
  }
  const wrapped = (open: string, close: string, parts: readonly string[]) => {
    if (indent === null || parts.length === 0) return `${open}${parts.join(between)}${close}`
    const line = `\n${' '.repeat(indent * depth)}`
    const inner = line + ' '.repeat(indent)
    return `${open}${inner}${parts.join(between + inner)}${line}${close}`
  }
  switch (value.type) {
    case 'NullValue':
      return 'null'
    case 'IntegerValue':
    case 'BooleanValue':
      return String(value.value)
    case 'FloatValue':
      return floatText(value.value as number)
    case 'StringValue':
      return string(value.value as string)
    case 'ArrayValue':
    case 'TupleValue':
      return wrapped(
        '[',
        ']',
        (value.value as JinjaValue[]).map((one) => jsonOf(one, style, depth + 1)),
      )
    case 'ObjectValue': {
      const entries = [...(value.value as Map<string, JinjaValue>)]
      if (sortKeys) entries.sort(([left], [right]) => (left < right ? -1 : 1))
      const parts = entries.map(([key, one]) => `${string(key)}${behindKey}${jsonOf(one, style, depth + 1)}`)
      return wrapped('{', '}', parts)
    }
    default:
      throw new Error(`a ${value.type} is nothing that JSON can hold`)
  }
}

function escapedUnit(unit: string): string {
  return unit === '\x7f' ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** == of Python. */
export function areEqual(left: JinjaValue, right: JinjaValue): boolean {
  const kind = kindOf(left)
  if (kind !== kindOf(right)) return false
  if (kind === 'number') return Number(left.value) === Number(right.value)
  if (kind === 'none' || kind === 'undefined') return true
  if (kind === 'list' || kind === 'tuple') {
    const [ones, others] = [left.value as JinjaValue[], right.value as JinjaValue[]]
    return ones.length === others.length && ones.every((one, index) => areEqual(one, others[index]!))
  }
  if (kind === 'dict') {
    const [ones, others] = [left.value as Map<string, JinjaValue>, right.value as Map<string, JinjaValue>]
    return (
      ones.size === others.size && [...ones].every(([key, one]) => others.has(key) && areEqual(one, others.get(key)!))
    )
  }
  return left.value === right.value
}

const KINDS: Readonly<Record<string, string>> = {
  IntegerValue: 'number',
  FloatValue: 'number',
  BooleanValue: 'number',
  NullValue: 'none',
  UndefinedValue: 'undefined',
  ArrayValue: 'list',
  TupleValue: 'tuple',
  ObjectValue: 'dict',
  KeywordArgumentsValue: 'dict',
}

function kindOf({ type }: JinjaValue): string {
  return KINDS[type] ?? type
}
