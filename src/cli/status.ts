import { answer, type CommandCall, type ExitCode } from './command.ts'
import { askEngine } from './engine-http.ts'
import { percent } from './query.ts'
import { shortBytes } from './short-texts.ts'
import { textTable } from './table.ts'

/** `kvtier status`: what `GET /status` of a running engine says. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const status = await askEngine(call, '/status')
  answer(call, status, () => statusText(status))
  return 0
}

/** A table of each part: first what is of the engine as a whole, then what is nested, as rows of dotted names. */
export function statusText(status: object): string {
  const parts = new Map<string, string[][]>([['engine', []]])
  for (const [name, value] of Object.entries(status)) {
    const isPart = typeof value === 'object' && value !== null && !isList(value)
    if (isPart) parts.set(name, flatRows(value))
    else parts.get('engine')!.push(...flatRows(value, name))
  }
  const tables = [...parts].filter(([, rows]) => rows.length > 0)
  return tables.map(([title, rows]) => textTable([{ title }, { title: 'value', wraps: true }], rows)).join('\n\n')
}

function flatRows(value: unknown, name = ''): string[][] {
  if (typeof value !== 'object' || value === null) return [[name, valueText(name, value)]]
  if (isList(value)) return [[name, value.join(', ') || '-']]
  return Object.entries(value).flatMap(([key, inner]) => flatRows(inner, name === '' ? key : `${name}.${key}`))
}

/** Whether it is a list of plain values, or empty. */
function isList(value: unknown): value is readonly unknown[] {
  return Array.isArray(value) && value.every((item) => typeof item !== 'object')
}

function valueText(name: string, value: unknown): string {
  if (typeof value === 'number' && /bytes(max)?$/i.test(name)) return shortBytes(value)
  if (typeof value === 'number' && name.endsWith('Ratio')) return percent(value)
  return value === null || value === '' ? '-' : String(value)
}
