import { CacheError } from '../core/errors.ts'
import { COMMANDS } from './commands.ts'
import { usageLine } from './help.ts'
import { LISTS, type ListTopic, type PrintedList } from './print-lists.ts'

// A page holds its generated tables between these lines:
//   <!-- generated:metrics -->
//   | ... |
//   <!-- /generated -->
const SECTION = /^<!-- generated:([a-z-]*) -->\n([\s\S]*?)^<!-- \/generated -->$/gm

/** A page with its generated tables brought up to date, and their names in order. */
export async function updatedDocs(text: string, file: string): Promise<{ text: string; tables: string[] }> {
  const tables = [...text.matchAll(SECTION)].map((match) => match[1]!)
  if (tables.length === 0) {
    throw new CacheError(
      'NOT_FOUND',
      `${file} has no line <!-- generated:metrics --> with <!-- /generated --> after it`,
    )
  }
  const bodies = new Map<string, string>()
  for (const name of new Set(tables)) bodies.set(name, await generatedTable(name, file))
  const updated = text.replace(SECTION, (_, name: string) => {
    return `<!-- generated:${name} -->\n${bodies.get(name)!}\n<!-- /generated -->`
  })
  return { text: updated, tables }
}

async function generatedTable(name: string, file: string): Promise<string> {
  if (name === 'commands') return markdownTable(commandList())
  if (!Object.hasOwn(LISTS, name)) {
    const names = [...Object.keys(LISTS), 'commands'].join(', ')
    throw new CacheError('NOT_FOUND', `${file} asks for a table "${name}"; there are: ${names}`)
  }
  return markdownTable(await LISTS[name as ListTopic]([]))
}

function commandList(): PrintedList {
  const columns = [{ title: 'command' }, { title: 'what it does' }]
  const rows = COMMANDS.map((spec) => [usageLine(spec), spec.summary])
  return { columns, rows, terminalColumns: [0, 1], json: [] }
}

/** Names in code font, so that underscores and angle brackets stay as they are. */
function markdownTable({ columns, rows }: PrintedList): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  return [
    line(columns.map((column) => column.title)),
    line(columns.map(() => '-')),
    ...rows.map((row) => line(row.map((cell, index) => markdownCell(cell, index === 0)))),
  ].join('\n')
}

function markdownCell(cell: string, isName: boolean): string {
  const text = cell.replaceAll('|', '\\|').replace(/\s+/g, ' ').trim()
  return isName && text !== '' ? `\`${text}\`` : text.replaceAll('<', '&lt;')
}
