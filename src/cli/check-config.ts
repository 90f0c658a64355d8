import { serveTables } from '../config/load-config.ts'
import { fieldsOf } from '../config/load-options.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { loadServeConfig } from './serve-config.ts'
import { textTable } from './table.ts'

const COLUMNS = [{ title: 'option' }, { title: 'value', wraps: true }, { title: 'from' }]

/** `kvtier check-config`: what `serve` would run with, and where each value comes from. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const { options, sources, configFile, warnings } = loadServeConfig(call)
  const values = shownValues(options)
  const rows = fieldsOf(serveTables).map(({ flag }) => [flag, values.get(flag)!, sources.get(flag)!] as const)
  const json = Object.fromEntries(rows.map(([flag, value, source]) => [flag.slice(2), { value, source }]))
  answer(call, { ok: true, config_file: configFile ?? null, options: json, warnings }, () => {
    const head = configFile === undefined ? 'No config file.' : `Config file: ${configFile}`
    const notes = warnings.map((warning) => `Warning: ${warning}.\n`).join('')
    return `${head}\n\n${textTable(COLUMNS, rows)}\n\n${notes}The configuration is fine.`
  })
  return 0
}

/** Each value as it would be written, by flag. */
function shownValues(options: object): Map<string, string> {
  const values = new Map<string, string>()
  for (const [owner, table] of Object.entries(serveTables)) {
    const section = (options as Record<string, Record<string, unknown>>)[owner]!
    for (const [name, field] of Object.entries(table)) {
      const show = field.show as (value: unknown) => string
      values.set(field.flag, show(section[name]))
    }
  }
  return values
}
