import { resolve } from 'node:path'
import { CacheError } from '../core/errors.ts'
import { readConfigText } from './config-file.ts'
import { type Field, type FieldTable, isDerived, type Known, type MachineFacts, Refusal } from './fields.ts'
import { isForeign } from './foreign-variables.ts'
import { envOf, fileKeyOf, printable, suggestion } from './option-names.ts'
import { type ParsedFlags, parseFlags } from './parse-flags.ts'
import { redact } from './redact.ts'

/** Tables of several owners, each under a name of its own. Order matters: derived defaults look at earlier rows. */
// biome-ignore lint/suspicious/noExplicitAny: a table of any owner
export type Tables = Readonly<Record<string, FieldTable<any>>>

/** The options of tables: for each owner, one value a field. */
export type OptionsOf<T extends Tables> = {
  readonly [Owner in keyof T]: T[Owner] extends FieldTable<infer Options> ? Readonly<Options> : never
}

export type Source = 'flag' | 'env' | 'file' | 'default'

/** Where options may come from. Strongest first: argv, env, file, defaults. */
export interface OptionInputs {
  /** Arguments after the command's name. */
  readonly argv: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly machine: MachineFacts
  /** Contents of the file under an absolute path. May throw. */
  readonly readFile: (path: string) => string
}

export interface LoadedOptions<T extends Tables> {
  readonly options: OptionsOf<T>
  /** Where each value came from, by flag. */
  readonly sources: ReadonlyMap<string, Source>
  readonly positionals: readonly string[]
  /** Absolute path of the config file, if any. */
  readonly configFile: string | undefined
}

export const CONFIG_FLAG = '--config'
const ENV_PREFIX = 'KVTIER_'

interface Given {
  readonly raw: unknown
  /** The name it was given under: flag, variable or key. */
  readonly name: string
  readonly source: Source
}

/**
 * Reads every option of the tables: flags over environment (`KVTIER_*`) over the config file over defaults.
 *
 * @throws CacheError CONFIG_INVALID, one line that names the option, the value and the fix; `detail.field` is the
 *   name under which the option was given.
 */
export function loadOptions<T extends Tables>(tables: T, inputs: OptionInputs): LoadedOptions<T> {
  const fields = fieldsOf(tables)
  const flags = parseFlags(inputs.argv, [...fields, { flag: CONFIG_FLAG }])
  refuseUnknownEnv(inputs.env, fields)
  const configFile = configPath(flags, inputs)
  const file = configFile === undefined ? undefined : readFile(configFile, inputs, fields)
  const sources = new Map<string, Source>()
  const values = new Map<string, unknown>()
  const known: Known = {
    machine: inputs.machine,
    value: (flag) => values.get(flag) as never,
    env: (name) => inputs.env[name],
  }
  const options: Record<string, Record<string, unknown>> = {}
  for (const [owner, table] of Object.entries(tables)) {
    const section: Record<string, unknown> = {}
    for (const [name, field] of Object.entries(table) as [string, Field<unknown>][]) {
      const given = find(field, flags, inputs.env, file)
      section[name] = given === undefined ? defaultOf(field, known) : take(field, given, known)
      values.set(field.flag, section[name])
      sources.set(field.flag, given?.source ?? 'default')
    }
    options[owner] = section
  }
  return { options: options as OptionsOf<T>, sources, positionals: flags.positionals, configFile }
}

/** Every field of the tables, in order. */
export function fieldsOf(tables: Tables): Field<unknown>[] {
  return Object.values(tables).flatMap((table) => Object.values(table) as Field<unknown>[])
}

function find(
  field: Field<unknown>,
  flags: ParsedFlags,
  env: OptionInputs['env'],
  file: ReadonlyMap<string, unknown> | undefined,
): Given | undefined {
  const texts = flags.values.get(field.flag)
  if (texts !== undefined) {
    return { raw: field.isRepeatable === true ? texts : texts[0], name: field.flag, source: 'flag' }
  }
  const variable = envOf(field.flag)
  const fromEnv = env[variable]
  if (fromEnv !== undefined && !isForeign(variable, fromEnv)) return { raw: fromEnv, name: variable, source: 'env' }
  const key = fileKeyOf(field.flag)
  if (file?.has(key) === true) return { raw: file.get(key), name: key, source: 'file' }
  return undefined
}

function take(field: Field<unknown>, given: Given, known: Known): unknown {
  try {
    return field.parse(given.raw, known)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw invalid(
      given.name,
      `${given.name} is ${field.isSecret === true ? 'wrong' : showRaw(given.raw)}: ${error.message}`,
    )
  }
}

function defaultOf(field: Field<unknown>, known: Known): unknown {
  return isDerived(field.default) ? field.default.derive(known) : field.default
}

function refuseUnknownEnv(env: OptionInputs['env'], fields: readonly Field<unknown>[]): void {
  const names = new Set([...fields.map((field) => envOf(field.flag)), envOf(CONFIG_FLAG)])
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith(ENV_PREFIX) || names.has(name) || isForeign(name, value)) continue
    const shown = printable(name)
    throw invalid(shown, `${shown} in the environment is not an option${suggestion(name, names)}`)
  }
}

function configPath(flags: ParsedFlags, inputs: OptionInputs): string | undefined {
  const path = flags.values.get(CONFIG_FLAG)?.[0] ?? inputs.env[envOf(CONFIG_FLAG)]
  if (path === undefined) return undefined
  if (path === '') throw invalid(CONFIG_FLAG, `${CONFIG_FLAG} is empty; write the path of a YAML or JSON file`)
  return resolve(inputs.machine.workingDirectory, path)
}

function readFile(path: string, inputs: OptionInputs, fields: readonly Field<unknown>[]): Map<string, unknown> {
  const keys = new Set(fields.map((field) => fileKeyOf(field.flag)))
  let contents: string
  try {
    contents = inputs.readFile(path)
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'it cannot be read'
    const message = `${CONFIG_FLAG} is "${path}": it cannot be read (${reason}); check the path and its permissions`
    throw new CacheError('CONFIG_INVALID', message, { field: CONFIG_FLAG }, error)
  }
  return readConfigText(path, contents, keys)
}

// One line, short, and without secrets: a value may be long or hold control characters.
function showRaw(raw: unknown): string {
  const value = Array.isArray(raw) && raw.length === 1 ? raw[0] : raw
  const text = redact(JSON.stringify(value) ?? String(value))
  return text.length > 120 ? `${text.slice(0, 117)}...` : text
}

function invalid(field: string, message: string): CacheError {
  return new CacheError('CONFIG_INVALID', message, { field })
}
