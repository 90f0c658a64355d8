import { answer, type CommandCall, type ExitCode } from './command.ts'
import { askEngine } from './engine-http.ts'
import { textTable } from './table.ts'

/** `kvtier status`: what `GET /status` of a running engine says. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const status = await askEngine(call, '/status')
  answer(call, status, () => textTable([{ title: 'what' }, { title: 'value', wraps: true }], flatRows(status)))
  return 0
}

/** Nested objects as rows of dotted names. */
export function flatRows(value: unknown, name = ''): string[][] {
  if (typeof value !== 'object' || value === null) return [[name, String(value)]]
  if (Array.isArray(value) && value.every((item) => typeof item !== 'object')) return [[name, value.join(', ') || '-']]
  return Object.entries(value).flatMap(([key, inner]) => flatRows(inner, name === '' ? key : `${name}.${key}`))
}
