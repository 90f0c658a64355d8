import type { BackendOptions } from '../../l2/options.ts'
import { type Field, type Known, Refusal } from '../fields.ts'
import { suggestion } from '../option-names.ts'
import { type AdapterEntry, type BackendSyntax, parseKeys } from './adapter-entry.ts'
import { filesystemSyntax } from './filesystem-fields.ts'
import { memorySyntax } from './memory-fields.ts'

/** Every type of backend, in the order the docs show them. */
const SYNTAXES = {
  filesystem: filesystemSyntax,
  memory: memorySyntax,
} satisfies { readonly [Type in BackendOptions['type']]: unknown }

/** A syntax whose type of options is no longer known. */
type AnySyntax = BackendSyntax<BackendOptions>

export const BACKEND_TYPES = Object.keys(SYNTAXES) as BackendOptions['type'][]

/** The fields of a type that belong to it alone. */
export function fieldsOfType(type: BackendOptions['type']): readonly Field<unknown>[] {
  return Object.values(syntaxOf(type).fields) as Field<unknown>[]
}

/** Keys that must be given, each with an example. */
export function requiredKeys(type: BackendOptions['type']): Readonly<Record<string, string>> {
  return syntaxOf(type).required
}

/** @throws Refusal when `type` is none. */
export function backendType(type: unknown): BackendOptions['type'] {
  const found = BACKEND_TYPES.find((word) => word === type)
  if (found !== undefined) return found
  const hint = typeof type === 'string' ? suggestion(type.slice(0, 40), BACKEND_TYPES) : ''
  throw new Refusal(`write type as one of: ${BACKEND_TYPES.join(', ')}${hint}`)
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
  const options = { type, ...syntax.fixed, ...parseKeys(syntax.fields, entry, known) } as BackendOptions
  return syntax.finish?.(options, name, known) ?? options
}

/** What no two adapters may share, in words. */
export function exclusiveOf(backend: BackendOptions): string | undefined {
  return syntaxOf(backend.type).exclusive?.(backend)
}

/** The backend without its secrets, for people to read. */
export function withoutSecrets(backend: BackendOptions): BackendOptions {
  const shown: Record<string, unknown> = { ...backend }
  for (const secret of syntaxOf(backend.type).secrets ?? []) if (shown[secret]) shown[secret] = '***'
  return shown as unknown as BackendOptions
}

function syntaxOf(type: BackendOptions['type']): AnySyntax {
  return SYNTAXES[type] as unknown as AnySyntax
}
