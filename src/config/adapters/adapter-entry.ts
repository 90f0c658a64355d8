import type { BackendOptions } from '../../l2/options.ts'
import { type Field, type Known, Refusal } from '../fields.ts'

/** One adapter as it was written: its keys and their values, as text (flag, environment) or as the file has them. */
export type AdapterEntry = Readonly<Record<string, unknown>>

/**
 * How the options of one type of backend are written. One file of this folder for each type; `backends.ts` has all.
 * `Fixed`: options that nobody configures.
 */
export interface BackendSyntax<Options extends BackendOptions, Fixed extends keyof Options = never> {
  /** A row's "flag" is its key within the adapter. A missing or misspelt option does not compile. */
  readonly fields: { readonly [K in Exclude<keyof Options, 'type' | Fixed>]-?: Field<Options[K]> }
  readonly fixed: { readonly [K in Fixed]: Options[K] }
  /** Keys that must be given, each with an example. */
  readonly required: Readonly<Record<string, string>>
  /** Options that hold secrets: never shown. */
  readonly secrets?: readonly (keyof Options)[]
  /** What no field can say alone: derived paths, options that exclude each other. @throws Refusal */
  finish?(options: Options, name: string, known: Known): Options
  /** What no two adapters may share, in words, such as "the path /data/l2". */
  exclusive?(options: Options): string | undefined
}

/** Words separated by "+" in a flag or the environment, where "," separates keys; an array in a file. */
export function words(key: string, help: string): Field<readonly string[]> {
  const parse = (raw: unknown): readonly string[] => {
    const found = typeof raw === 'string' ? raw.split('+').map((word) => word.trim()) : raw
    const isFine = Array.isArray(found) && found.every((word) => typeof word === 'string' && word !== '')
    if (!isFine) throw new Refusal('write words separated by "+"; in a file, a list')
    return found as string[]
  }
  const schema = { type: 'array', items: { type: 'string', minLength: 1 } }
  return { flag: key, type: 'list', help, default: [], parse, show: (found) => found.join('+'), schema }
}

/** Values of a table of fields, defaults filled in. @throws Refusal naming the key */
export function parseKeys<Values>(
  fields: { readonly [K in keyof Values]: Field<Values[K]> },
  entry: AdapterEntry,
  known: Known,
): Values {
  const values: Partial<Values> = {}
  for (const name of Object.keys(fields) as (keyof Values)[]) values[name] = parseKey(fields[name], entry, known)
  return values as Values
}

function parseKey<T>(field: Field<T>, entry: AdapterEntry, known: Known): T {
  if (entry[field.flag] === undefined) return field.default as T
  try {
    return field.parse(entry[field.flag], known)
  } catch (error) {
    if (error instanceof Refusal) throw new Refusal(`${field.flag} is wrong: ${error.message}`)
    throw error
  }
}
