import { CacheError } from '../core/errors.ts'
import { printable, suggestion } from './option-names.ts'

export interface FlagSpec {
  readonly flag: string
  /** May stand alone for true, and be turned off as `--no-NAME`. */
  readonly isSwitch?: boolean
  readonly isRepeatable?: boolean
}

export interface ParsedFlags {
  /** Text of each flag given, in order; more than one only for repeatable flags. */
  readonly values: ReadonlyMap<string, readonly string[]>
  /** Arguments that are not flags, and everything after `--`. */
  readonly positionals: readonly string[]
}

/**
 * Reads `--flag value`, `--flag=value`, `--switch`, `--switch false` and `--no-switch`.
 *
 * @throws CacheError CONFIG_INVALID for an unknown flag, a flag without a value, one given twice.
 */
export function parseFlags(argv: readonly string[], specs: readonly FlagSpec[]): ParsedFlags {
  const byFlag = new Map(specs.map((spec) => [spec.flag, spec]))
  const values = new Map<string, string[]>()
  const positionals: string[] = []
  for (let at = 0; at < argv.length; at += 1) {
    const argument = argv[at]!
    if (argument === '--') {
      positionals.push(...argv.slice(at + 1))
      break
    }
    if (!argument.startsWith('-') || argument === '-') {
      positionals.push(argument)
      continue
    }
    const equals = argument.indexOf('=')
    const name = equals < 0 ? argument : argument.slice(0, equals)
    const off = negated(name, byFlag)
    const spec = byFlag.get(off ?? name)
    if (spec === undefined) throw unknownFlag(name, byFlag)
    if (off !== undefined && equals >= 0) {
      throw invalid(name, `${name} takes no value; write ${off}=false or ${name} alone`)
    }
    const next = argv[at + 1]
    const isNextTaken = equals < 0 && off === undefined && takesNext(spec, next)
    if (isNextTaken) at += 1
    record(values, spec, valueText(spec, argument, equals, isNextTaken ? next : undefined, off))
  }
  return { values, positionals }
}

function negated(name: string, byFlag: ReadonlyMap<string, FlagSpec>): string | undefined {
  if (!name.startsWith('--no-') || byFlag.has(name)) return undefined
  const positive = `--${name.slice('--no-'.length)}`
  return byFlag.get(positive)?.isSwitch === true ? positive : undefined
}

function takesNext(spec: FlagSpec, next: string | undefined): boolean {
  if (next === undefined) return false
  // A switch takes the next word only when it is plainly its value.
  if (spec.isSwitch === true) return next === 'true' || next === 'false'
  return !next.startsWith('--')
}

function valueText(
  spec: FlagSpec,
  argument: string,
  equals: number,
  next: string | undefined,
  off: string | undefined,
): string {
  if (off !== undefined) return 'false'
  if (equals >= 0) return argument.slice(equals + 1)
  if (next !== undefined) return next
  if (spec.isSwitch === true) return 'true'
  throw invalid(spec.flag, `${spec.flag} has no value; write ${spec.flag} VALUE`)
}

function record(values: Map<string, string[]>, spec: FlagSpec, value: string): void {
  const earlier = values.get(spec.flag)
  if (earlier === undefined) values.set(spec.flag, [value])
  else if (spec.isRepeatable === true) earlier.push(value)
  else throw invalid(spec.flag, `${spec.flag} is given twice, as "${earlier[0]}" and as "${value}"; give it once`)
}

function unknownFlag(name: string, byFlag: ReadonlyMap<string, FlagSpec>): CacheError {
  const shown = printable(name)
  return invalid(shown, `${shown} is not an option${suggestion(name, byFlag.keys())}`)
}

function invalid(flag: string, message: string): CacheError {
  return new CacheError('CONFIG_INVALID', message, { field: flag })
}
