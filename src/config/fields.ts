import { resolve } from 'node:path'
import { formatBytes, formatDurationMs, parseBytes, parseDurationMs } from './units.ts'

/** Facts of the machine that defaults depend on. Bytes; the disk is the one of the data directory. */
export interface MachineFacts {
  readonly availableMemoryBytes: number
  readonly freeSharedMemoryBytes: number
  readonly cpus: number
  /** Absolute. Relative paths of flags and environment count from here. */
  readonly workingDirectory: string
  readonly hostName: string
  /** Free bytes of the file system that holds, or would hold, this path. */
  freeDiskBytes(path: string): number
  /** Size of the L1 that the last engine of this data directory left in shared memory; 0 = it left none. */
  keptL1Bytes(dataDir: string): number
}

/** What a derived default may look at: the machine, and every option of an earlier row. */
export interface Known {
  readonly machine: MachineFacts
  /** Value of an earlier option, by its flag. */
  value<T>(flag: string): T
  /** A variable of the environment that an option names. */
  env(variable: string): string | undefined
}

export interface DerivedDefault<T> {
  /** The rule, in words for the docs. */
  readonly rule: string
  readonly derive: (known: Known) => T
}

/** One option: a row yields the flag, the environment variable, the file key, the default, the schema and the docs. */
export interface Field<T> {
  readonly flag: string
  /** The kind, in words for the docs. */
  readonly type: string
  readonly help: string
  readonly default: T | DerivedDefault<T>
  /** Reads a value from text (flag, environment) or from the file. @throws Refusal */
  readonly parse: (raw: unknown, known: Known) => T
  /** The value as `parse` reads it. */
  readonly show: (value: T) => string
  /** JSON schema of the value in a file. */
  readonly schema: Readonly<Record<string, unknown>>
  /** The flag may stand alone, which means true. */
  readonly isSwitch?: boolean
  /** The flag may be given more than once; `parse` gets an array. */
  readonly isRepeatable?: boolean
  /** The value may hold secrets: no error repeats it. */
  readonly isSecret?: boolean
}

/** One field for each option of an owner: a missing or misspelt one does not compile. */
export type FieldTable<T> = { readonly [K in keyof T]-?: Field<T[K]> }

/** Why a value cannot be taken, and what to write instead. The loader adds the option's name and the value. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
}

/** A default that depends on the machine or on earlier options. */
export function derived<T>(rule: string, derive: (known: Known) => T): DerivedDefault<T> {
  return { rule, derive }
}

export function isDerived<T>(value: T | DerivedDefault<T>): value is DerivedDefault<T> {
  return typeof value === 'object' && value !== null && 'derive' in value && 'rule' in value
}

/** A size. `fallback` as text with a unit, or derived. `minimum` in bytes. */
export function bytes(
  flag: string,
  fallback: string | DerivedDefault<number>,
  help: string,
  minimum = 0,
): Field<number> {
  const parse = (raw: unknown): number => {
    const value = typeof raw === 'number' ? (Number.isSafeInteger(raw) ? raw : undefined) : parseBytes(asText(raw))
    if (value === undefined) throw new Refusal('write a size with a unit, such as 512MiB, 4GiB or 10GB')
    if (value < minimum) throw new Refusal(`write at least ${formatBytes(minimum)}`)
    return value
  }
  const schema = { type: ['integer', 'string'], minimum, pattern: '^[0-9.]+ *([kKmMgGtT]?[iI]?[bB])?$' }
  const start = typeof fallback === 'string' ? parse(fallback) : fallback
  return { flag, type: 'size', help, default: start, parse, show: formatBytes, schema }
}

/** A share, 0..1. */
export function ratio(flag: string, fallback: number, help: string): Field<number> {
  const parse = (raw: unknown): number => {
    const value = asNumber(raw)
    if (value === undefined || value < 0 || value > 1) throw new Refusal('write a number from 0 to 1, such as 0.95')
    return value
  }
  const schema = { type: 'number', minimum: 0, maximum: 1 }
  return { flag, type: 'ratio 0..1', help, default: fallback, parse, show: String, schema }
}

/** A whole number in a range, both ends included. */
export function integer(
  flag: string,
  fallback: number | DerivedDefault<number>,
  range: { readonly minimum: number; readonly maximum: number },
  help: string,
): Field<number> {
  const { minimum, maximum } = range
  const parse = (raw: unknown): number => {
    const value = asNumber(raw)
    if (value === undefined || !Number.isSafeInteger(value) || value < minimum || value > maximum) {
      throw new Refusal(`write a whole number from ${minimum} to ${maximum}`)
    }
    return value
  }
  const type = `whole number ${minimum}..${maximum}`
  return { flag, type, help, default: fallback, parse, show: String, schema: { type: 'integer', minimum, maximum } }
}

/** A TCP port; 0 lets the system pick a free one. */
export function port(flag: string, fallback: number, help: string): Field<number> {
  const field = integer(flag, fallback, { minimum: 0, maximum: 65_535 }, help)
  return { ...field, type: 'port' }
}

/** A span of time, in milliseconds. `fallback` as text with a unit. Both limits included. */
export function duration(
  flag: string,
  fallback: string,
  limits: { readonly minimumMs: number; readonly maximumMs: number },
  help: string,
): Field<number> {
  const { minimumMs, maximumMs } = limits
  const parse = (raw: unknown): number => {
    const value = parseDurationMs(asText(raw))
    if (value === undefined) throw new Refusal('write a time with a unit: ms, s, m, h or d, such as 30s')
    if (value < minimumMs || value > maximumMs) {
      throw new Refusal(`write a time from ${formatDurationMs(minimumMs)} to ${formatDurationMs(maximumMs)}`)
    }
    return value
  }
  const schema = { type: 'string', pattern: '^[0-9.]+ *(ms|s|m|h|d)$' }
  return { flag, type: 'duration', help, default: parse(fallback), parse, show: formatDurationMs, schema }
}

/** Free text of one line, `limits.minimum` to `limits.maximum` characters. */
export function text(
  flag: string,
  fallback: string | DerivedDefault<string>,
  help: string,
  limits: { readonly minimum?: number; readonly maximum?: number } = {},
): Field<string> {
  const { minimum = 1, maximum = 4096 } = limits
  const parse = (raw: unknown): string => {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
    if (typeof raw !== 'string' || /[\u0000-\u001f\u007f]/.test(raw)) throw new Refusal('write text of one line')
    if (raw.length < minimum) throw new Refusal('write a value; it is empty')
    if (raw.length > maximum) throw new Refusal(`write at most ${maximum} characters`)
    return raw
  }
  const schema = { type: 'string', minLength: minimum, maxLength: maximum }
  return { flag, type: 'text', help, default: fallback, parse, show: String, schema }
}

/** A directory, made absolute against the working directory. */
export function directory(flag: string, fallback: string, help: string): Field<string> {
  const start = derived(fallback, ({ machine }) => resolve(machine.workingDirectory, fallback))
  const field = text(flag, start, help)
  return {
    ...field,
    type: 'path',
    parse: (raw, known) => resolve(known.machine.workingDirectory, field.parse(raw, known)),
  }
}

/** A file, made absolute against the working directory; empty = none. */
export function file(flag: string, help: string): Field<string> {
  const field = text(flag, '', help, { minimum: 0 })
  const parse: Field<string>['parse'] = (raw, known) => {
    const path = field.parse(raw, known)
    return path === '' ? '' : resolve(known.machine.workingDirectory, path)
  }
  return { ...field, type: 'path', parse }
}

export function boolean(flag: string, fallback: boolean, help: string): Field<boolean> {
  const parse = (raw: unknown): boolean => {
    if (raw === true || raw === 'true' || raw === '1') return true
    if (raw === false || raw === 'false' || raw === '0') return false
    throw new Refusal('write true or false')
  }
  const schema = { type: 'boolean' }
  return { flag, type: 'true | false', help, default: fallback, parse, show: String, schema, isSwitch: true }
}

/** One of a few words. */
export function oneOf<const Words extends readonly string[]>(
  flag: string,
  words: Words,
  fallback: Words[number],
  help: string,
): Field<Words[number]> {
  const parse = (raw: unknown): Words[number] => {
    const found = words.find((word) => word === raw)
    if (found === undefined) throw new Refusal(`write one of: ${words.join(', ')}`)
    return found
  }
  return { flag, type: words.join(' | '), help, default: fallback, parse, show: String, schema: { enum: words } }
}

/** Words separated by commas; an array in a file. */
export function list(flag: string, fallback: readonly string[], help: string): Field<readonly string[]> {
  const parse = (raw: unknown): readonly string[] => {
    const words = typeof raw === 'string' ? raw.split(',').map((word) => word.trim()) : raw
    const isFine = Array.isArray(words) && words.every((word) => typeof word === 'string' && word !== '')
    if (!isFine) throw new Refusal('write words separated by commas')
    return words as string[]
  }
  const schema = { type: 'array', items: { type: 'string', minLength: 1 } }
  return { flag, type: 'list', help, default: fallback, parse, show: (words) => words.join(','), schema }
}

function asText(raw: unknown): string {
  return typeof raw === 'string' ? raw : typeof raw === 'number' ? String(raw) : ''
}

function asNumber(raw: unknown): number | undefined {
  if (typeof raw === 'number') return raw
  if (typeof raw !== 'string' || !/^-?\d+(\.\d+)?$/.test(raw.trim())) return undefined
  return Number(raw)
}
