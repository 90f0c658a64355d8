import type { FaultAdapterOptions } from '../../l2/adapters/fault/options.ts'
import type { BackendOptions } from '../../l2/options.ts'
import { type Field, type Known, oneOf, Refusal } from '../fields.ts'
import { suggestion } from '../option-names.ts'
import { type AdapterEntry, type BackendSyntax, parseKeys } from './adapter-entry.ts'
import { faultSyntax } from './fault-fields.ts'
import { filesystemSyntax } from './filesystem-fields.ts'
import { memorySyntax } from './memory-fields.ts'
import { peerSyntax } from './peer-fields.ts'
import { redisSyntax } from './redis-fields.ts'
import { s3Syntax } from './s3-fields.ts'

/** Every type of backend, in the order the docs show them. */
const SYNTAXES = {
  filesystem: filesystemSyntax,
  memory: memorySyntax,
  redis: redisSyntax,
  s3: s3Syntax,
  peer: peerSyntax,
  fault: faultSyntax,
} satisfies { readonly [Type in BackendOptions['type']]: unknown }

/** A syntax whose type of options is no longer known. */
interface AnySyntax extends Omit<BackendSyntax<BackendOptions>, 'fields' | 'fixed' | 'secrets'> {
  readonly fields: Readonly<Record<string, Field<unknown>>>
  readonly fixed: object
  readonly secrets?: readonly string[]
}

export const BACKEND_TYPES = Object.keys(SYNTAXES) as BackendOptions['type'][]

/** What a fault injector may wrap. */
export const INNER_TYPES = BACKEND_TYPES.filter((type) => type !== 'fault')

const innerTypeField = oneOf('inner-type', INNER_TYPES, 'filesystem', 'Type of the adapter that fails on purpose.')

/** The fields of a type that belong to it alone. @param inner what a fault injector wraps. */
export function fieldsOfType(
  type: BackendOptions['type'],
  inner: BackendOptions['type'] | undefined,
): readonly Field<unknown>[] {
  const own = Object.values(syntaxOf(type).fields)
  if (type !== 'fault') return own
  const rest = inner === undefined ? [] : fieldsOfType(inner, undefined)
  return [...own, innerTypeField as Field<unknown>, ...rest]
}

/** Keys that must be given, each with an example. */
export function requiredKeys(
  type: BackendOptions['type'],
  inner: BackendOptions['type'] | undefined,
): Readonly<Record<string, string>> {
  return { ...syntaxOf(type).required, ...(inner === undefined ? {} : syntaxOf(inner).required) }
}

/** What an entry wraps; undefined when it wraps nothing. @throws Refusal */
export function innerType(type: BackendOptions['type'], entry: AdapterEntry): BackendOptions['type'] | undefined {
  const given = entry['inner-type']
  if (type !== 'fault' || given === undefined) return undefined
  if (given === 'fault') throw new Refusal('inner-type is wrong: a fault injector does not wrap another')
  return backendType(given, 'inner-type')
}

/** @throws Refusal when `type` is none. */
export function backendType(type: unknown, key = 'type'): BackendOptions['type'] {
  const found = BACKEND_TYPES.find((word) => word === type)
  if (found !== undefined) return found
  const hint = typeof type === 'string' ? suggestion(type.slice(0, 40), BACKEND_TYPES) : ''
  throw new Refusal(`write ${key} as one of: ${BACKEND_TYPES.join(', ')}${hint}`)
}

/** The backend of an entry. Keys that are not the type's own are passed over. @throws Refusal */
export function parseBackend(
  type: BackendOptions['type'],
  name: string,
  entry: AdapterEntry,
  known: Known,
): BackendOptions {
  const syntax = syntaxOf(type)
  for (const [key, example] of Object.entries(syntax.required)) {
    if (entry[key] === undefined) throw new Refusal(`write a ${key} for ${name}, such as ${key}=${example}`)
  }
  const options = { type, ...syntax.fixed, ...parseKeys<object>(syntax.fields, entry, known) } as BackendOptions
  if (options.type === 'fault') return { ...options, inner: parseInner(name, entry, known) }
  return syntax.finish?.(options, name, known) ?? options
}

function parseInner(name: string, entry: AdapterEntry, known: Known): FaultAdapterOptions['inner'] {
  return parseBackend(innerType('fault', entry)!, name, entry, known) as FaultAdapterOptions['inner']
}

/** What no two adapters may share, in words. */
export function exclusiveOf(backend: BackendOptions): string | undefined {
  if (backend.type === 'fault') return exclusiveOf(backend.inner)
  return syntaxOf(backend.type).exclusive?.(backend)
}

/** The backend without its secrets, for people to read. */
export function withoutSecrets(backend: BackendOptions): BackendOptions {
  if (backend.type === 'fault') return { ...backend, inner: withoutSecrets(backend.inner) as typeof backend.inner }
  const shown: Record<string, unknown> = { ...backend }
  for (const secret of syntaxOf(backend.type).secrets ?? []) if (shown[secret]) shown[secret] = '***'
  return shown as unknown as BackendOptions
}

function syntaxOf(type: BackendOptions['type']): AnySyntax {
  return SYNTAXES[type] as unknown as AnySyntax
}
