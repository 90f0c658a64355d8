import { readFileSync, writeFileSync } from 'node:fs'
import { CacheError } from '../core/errors.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { updatedDocs } from './print-docs.ts'
import { isListTopic, LISTS, type PrintedList } from './print-lists.ts'
import { usageError } from './report-error.ts'
import { textTable } from './table.ts'
import { tokenizerDirs } from './tokenizer-dir-option.ts'

/** `kvtier print TOPIC`. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const topic = call.positionals[0]!
  if (topic === 'docs') return await printDocs(call)
  if (isFileTopic(topic)) return await printFile(call, topic)
  if (!isListTopic(topic)) throw usageError(`there is no topic ${topic}`, 'TOPIC')
  if (call.options.write === true || call.options.file !== undefined) {
    throw usageError('--write and --file go with print docs, dashboard and rules only', '--write')
  }
  const list = await LISTS[topic](tokenizerDirs(call))
  for (const warning of list.warnings ?? []) call.terminal.log(`kvtier: ${warning}`)
  answer(call, { [topic]: list.json }, () => terminalTable(list))
  return 0
}

/** Files that are wholly generated, and where a checkout keeps them. */
const FILE_TOPICS = { dashboard: 'config/grafana/kvtier.json', rules: 'config/prometheus/rules.yaml' } as const

type FileTopic = keyof typeof FILE_TOPICS

function isFileTopic(topic: string): topic is FileTopic {
  return Object.hasOwn(FILE_TOPICS, topic)
}

/** With --write into its file, otherwise on stdout. */
async function printFile(call: CommandCall, topic: FileTopic): Promise<ExitCode> {
  const { dashboardText, rulesText } = await import('../fleet/texts.ts')
  const text = topic === 'dashboard' ? dashboardText() : rulesText()
  if (call.options.write !== true) {
    if (call.options.file !== undefined) throw usageError('--file goes with --write', '--file')
    answer(call, { [topic]: text }, () => text.trimEnd())
    return 0
  }
  const file = String(call.options.file ?? FILE_TOPICS[topic])
  writeFileSync(file, text)
  answer(call, { file }, () => `${file}: written`)
  return 0
}

function terminalTable({ columns, rows, terminalColumns }: PrintedList): string {
  const pick = <T>(row: readonly T[]): T[] => terminalColumns.map((index) => row[index]!)
  return textTable(pick(columns), rows.map(pick))
}

/** Without --write: exit code 1 when the tables of the file are stale. */
async function printDocs(call: CommandCall): Promise<ExitCode> {
  const file = String(call.options.file ?? 'README.md')
  const text = read(file)
  const updated = await updatedDocs(text, file)
  const isStale = updated.text !== text
  if (call.options.write === true && isStale) writeFileSync(file, updated.text)
  const state = !isStale
    ? 'up to date'
    : call.options.write === true
      ? 'written'
      : 'stale; run kvtier print docs --write'
  answer(
    call,
    { file, tables: updated.tables, is_stale: isStale },
    () => `${file}: ${updated.tables.join(', ')}: ${state}`,
  )
  return isStale && call.options.write !== true ? 1 : 0
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable'
    throw new CacheError('NOT_FOUND', `${file} cannot be read (${reason}); give --file`, { field: '--file' }, error)
  }
}
