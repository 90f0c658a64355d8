import { limitFields } from './adapter-fields.ts'
import { BACKEND_TYPES, fieldsOfType, requiredKeys } from './adapters/backends.ts'
import { type Field, isDerived } from './fields.ts'

/** One key of an L2 adapter as the docs show it. */
export interface AdapterRow {
  readonly key: string
  /** Type of adapter that has the key; empty = every type. */
  readonly adapter: string
  /** Kind of its value. */
  readonly type: string
  readonly is_required: boolean
  readonly default: string
  readonly help: string
}

/** Every key of `--l2`: those of all types first, then those of each. */
export function adapterRows(): AdapterRow[] {
  const name = { key: 'name', adapter: '', type: 'text', is_required: true, default: '' }
  const type = { key: 'type', adapter: '', type: BACKEND_TYPES.join(' | '), is_required: true, default: '' }
  return [
    { ...name, help: 'Unique; the label l2_name of its metrics.' },
    { ...type, help: 'Where the objects are.' },
    ...Object.values(limitFields).map((field) => rowOf(field as Field<unknown>, '', {})),
    ...BACKEND_TYPES.flatMap((word) => {
      const required = requiredKeys(word, undefined)
      return fieldsOfType(word, undefined).map((field) => rowOf(field, word, required))
    }),
  ]
}

function rowOf(field: Field<unknown>, adapter: string, required: Readonly<Record<string, string>>): AdapterRow {
  const { flag: key, type, help } = field
  const isRequired = required[key] !== undefined
  const shown = isDerived(field.default) ? field.default.rule : field.show(field.default)
  return { key, adapter, type, is_required: isRequired, default: isRequired ? '' : shown, help }
}
