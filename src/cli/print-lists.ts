import { ERRORS } from '../core/errors.ts'
import type { Column } from './table.ts'

/** A list for people (columns and rows) and for scripts (json). The first column is a name. */
export interface PrintedList {
  readonly columns: readonly Column[]
  readonly rows: readonly (readonly string[])[]
  /** Columns that a terminal has room for; the README shows all. */
  readonly terminalColumns: readonly number[]
  readonly json: readonly object[]
  /** What is left out, and why. */
  readonly warnings?: readonly string[]
}

/** The lists of `kvtier print`, each read from the one table that the code itself uses. */
export const LISTS = { metrics, options, adapters, errors, events, models, activities } satisfies Record<
  string,
  (tokenizerDirs: readonly string[]) => Promise<PrintedList>
>

export type ListTopic = keyof typeof LISTS

export function isListTopic(topic: string): topic is ListTopic {
  return Object.hasOwn(LISTS, topic)
}

async function metrics(): Promise<PrintedList> {
  const { CATALOGUE } = await import('../metrics/catalogue.ts')
  const json = CATALOGUE.map(({ name, type, help, labels, always, extension }) => {
    return { name, type, help, labels, always_on: always, extension }
  })
  return {
    columns: [
      { title: 'metric' },
      { title: 'type' },
      { title: 'labels', wraps: true },
      { title: 'meaning', wraps: true },
    ],
    rows: json.map(({ name, type, labels, help }) => [name, type, labels.join(', '), help]),
    terminalColumns: [0, 1, 3],
    json,
  }
}

async function options(): Promise<PrintedList> {
  const { optionRows } = await import('../config/option-rows.ts')
  const { serveTables } = await import('../config/load-config.ts')
  const json = optionRows(serveTables)
  return {
    columns: [
      { title: 'flag' },
      { title: 'file key' },
      { title: 'default', wraps: true },
      { title: 'meaning', wraps: true },
    ],
    rows: json.map((row) => [row.flag, row.key, row.default, row.help]),
    terminalColumns: [0, 2, 3],
    json,
  }
}

async function adapters(): Promise<PrintedList> {
  const { adapterRows } = await import('../config/adapter-rows.ts')
  const json = adapterRows()
  return {
    columns: [
      { title: 'key' },
      { title: 'of adapters' },
      { title: 'default', wraps: true },
      { title: 'meaning', wraps: true },
    ],
    rows: json.map((row) => {
      return [row.key, row.adapter || 'all', row.is_required ? 'must be given' : row.default, row.help]
    }),
    terminalColumns: [0, 1, 2, 3],
    json,
  }
}

async function errors(): Promise<PrintedList> {
  const { HTTP_ERRORS, STATUS_OF_KIND } = await import('../server/http/error-mapper.ts')
  const json = [
    ...Object.entries(ERRORS).map(([code, { kind, retryable, help }]) => {
      return { code, kind, http_status: STATUS_OF_KIND[kind], retryable, help }
    }),
    ...Object.entries(HTTP_ERRORS).map(([code, { status, help }]) => {
      return { code, kind: 'http', http_status: status, retryable: false, help }
    }),
  ]
  const columns = ['code', 'kind', 'HTTP status', 'retry helps'].map((title) => ({ title }))
  return {
    columns: [...columns, { title: 'meaning', wraps: true }],
    rows: json.map(({ code, kind, http_status, retryable, help }) => {
      return [code, kind, `${http_status}`, retryable ? 'yes' : 'no', help]
    }),
    terminalColumns: [0, 2, 3, 4],
    json,
  }
}

async function events(): Promise<PrintedList> {
  await import('../events/catalogue.ts')
  const { EVENT_TYPES } = await import('../events/define.ts')
  const json = EVENT_TYPES.map(({ name, payload, emittedBy }) => ({ name, payload, emitted_by: emittedBy }))
  return {
    columns: [{ title: 'event' }, { title: 'payload', wraps: true }, { title: 'emitted by' }],
    rows: json.map(({ name, payload, emitted_by }) => [name, payload.join(', '), emitted_by]),
    terminalColumns: [0, 1, 2],
    json,
  }
}

async function models(tokenizerDirs: readonly string[]): Promise<PrintedList> {
  const { allModels } = await import('../tokenizer/all-models.ts')
  const { models: found, broken } = await allModels(tokenizerDirs)
  const json = [...found.values()].map(({ model, maxModelLen, templates }) => {
    return { model, max_model_len: maxModelLen, chat_template: templates.default !== undefined }
  })
  return {
    columns: [{ title: 'model' }, { title: 'longest context, tokens' }, { title: 'chat template' }],
    rows: json.map((row) => [row.model, String(row.max_model_len ?? 'not told'), row.chat_template ? 'yes' : 'no']),
    terminalColumns: [0, 1, 2],
    json,
    warnings: [...broken.values()].map(({ message }) => message),
  }
}

async function activities(): Promise<PrintedList> {
  const { ACTIONS, ACTOR_TYPES, RESOURCE_TYPES } = await import('../activities/actions.ts')
  const rowsOf = (field: string, values: Readonly<Record<string, string>>) =>
    Object.entries(values).map(([value, help]) => ({ value, field, help }))
  const json = [
    ...rowsOf('action', ACTIONS),
    ...rowsOf('actorType', ACTOR_TYPES),
    ...rowsOf('resourceType', RESOURCE_TYPES),
  ]
  return {
    columns: [{ title: 'value' }, { title: 'field' }, { title: 'meaning', wraps: true }],
    rows: json.map(({ value, field, help }) => [value, field, help]),
    terminalColumns: [0, 1, 2],
    json,
  }
}
