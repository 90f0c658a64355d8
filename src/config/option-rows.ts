import { type Field, isDerived } from './fields.ts'
import { CONFIG_FLAG, fieldsOf, type Tables } from './load-options.ts'
import { envOf, fileKeyOf } from './option-names.ts'

/** One option as the docs show it. */
export interface OptionRow {
  readonly name: string
  readonly flag: string
  readonly env: string
  /** Empty for an option that a file cannot set. */
  readonly key: string
  readonly type: string
  readonly default: string
  readonly help: string
}

/** Every option of the tables, in order, `--config` first: the source of `print options` and of the docs. */
export function optionRows(tables: Tables): OptionRow[] {
  const config: OptionRow = {
    name: CONFIG_FLAG.slice(2),
    flag: CONFIG_FLAG,
    env: envOf(CONFIG_FLAG),
    key: '',
    type: 'path',
    default: '',
    help: 'A YAML or JSON file of options. Flags and environment win over it.',
  }
  return [config, ...fieldsOf(tables).map(rowOf)]
}

/** JSON schema (draft 2020-12) of a config file. */
export function configSchema(tables: Tables): Record<string, unknown> {
  const properties: Record<string, unknown> = {}
  const sections: Record<string, Record<string, unknown>> = {}
  for (const field of fieldsOf(tables)) {
    const value = { ...field.schema, description: `${field.help} Default: ${defaultText(field)}` }
    const [section, name] = fileKeyOf(field.flag).split('.')
    if (name === undefined) properties[section!] = value
    else {
      sections[section!] ??= {}
      sections[section!]![name] = value
    }
  }
  for (const [section, inner] of Object.entries(sections)) {
    properties[section] = { type: 'object', properties: inner, additionalProperties: false }
  }
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'kvtier configuration',
    type: 'object',
    properties,
    additionalProperties: false,
  }
}

function rowOf(field: Field<unknown>): OptionRow {
  return {
    name: field.flag.slice(2),
    flag: field.flag,
    env: envOf(field.flag),
    key: fileKeyOf(field.flag),
    type: field.type,
    default: defaultText(field),
    help: field.help,
  }
}

function defaultText(field: Field<unknown>): string {
  return isDerived(field.default) ? field.default.rule : field.show(field.default)
}
