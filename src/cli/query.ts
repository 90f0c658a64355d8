import { type FleetRow, fleetReport, GROUPINGS, type Grouping } from '../fleet/fleet-report.ts'
import type { QueryRow } from '../fleet/prometheus-api.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { NO_TRAFFIC, prometheusOf } from './prometheus-option.ts'
import { usageError } from './report-error.ts'
import { shortNumber } from './short-texts.ts'
import { textTable } from './table.ts'

/** `kvtier query [EXPRESSION]`: a fleet through its Prometheus server. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const api = prometheusOf(call)
  if (api === undefined) throw usageError('--prometheus is missing; write the address of a server', '--prometheus')
  const expression = call.positionals[0]
  const wanted = [expression, call.options.names, call.options.series, call.options.by].filter(
    (one) => one !== undefined,
  )
  if (wanted.length > 1) throw usageError('give one of EXPRESSION, --by, --names and --series', 'EXPRESSION')
  if (call.options.names === true) {
    const names = (await api.names()).filter((name) => name.startsWith('cache_mp_'))
    answer(call, { names }, () => names.join('\n') || NO_TRAFFIC)
  } else if (typeof call.options.series === 'string') {
    const series = await api.series(call.options.series)
    answer(call, { series }, () => series.map(labelText).join('\n') || NO_TRAFFIC)
  } else if (expression !== undefined) {
    const rows = await api.query(expression)
    answer(call, { rows }, () => resultTable(rows))
  } else {
    const grouping = (call.options.by ?? 'model') as Grouping
    const rows = await fleetReport(api, grouping)
    answer(call, { by: grouping, rows }, () => fleetTable(rows, grouping))
  }
  return 0
}

/** Hit rate and health, a row for each model, tenant or engine. */
export function fleetTable(rows: readonly FleetRow[], grouping: Grouping): string {
  if (rows.length === 0) return NO_TRAFFIC
  const labels = GROUPINGS[grouping]
  const columns = [
    ...labels.map((title) => ({ title, wraps: true })),
    ...['hit rate', 'tokens/s', 'loaded/s', 'evicted/s'].map((title) => ({ title, align: 'right' as const })),
    ...(grouping === 'engine' ? [{ title: 'L1', align: 'right' as const }] : []),
    { title: 'problems', wraps: true },
  ]
  const cells = rows.map((row) => [
    ...labels.map((label) => row.labels[label] || '-'),
    percent(row.hitRatio),
    shortNumber(row.requestedTokens),
    shortNumber(row.chunksLoaded),
    shortNumber(row.l1Evicted),
    ...(grouping === 'engine' ? [percent(row.l1Usage)] : []),
    row.problems.join('; ') || '-',
  ])
  return textTable(columns, cells)
}

export function percent(ratio: number | null): string {
  return ratio === null || !Number.isFinite(ratio) ? '-' : `${(ratio * 100).toFixed(1)} %`
}

function resultTable(rows: readonly QueryRow[]): string {
  if (rows.length === 0) return 'No result: nothing matches, or no traffic has reached an engine yet.'
  const columns = [
    { title: 'labels', wraps: true },
    { title: 'value', align: 'right' as const },
  ]
  return textTable(
    columns,
    rows.map(({ labels, value }) => [labelText(labels), String(value)]),
  )
}

/** Labels as PromQL writes them: what a salt holds cannot leave its quotes, nor reach the terminal as it is. */
function labelText(labels: Readonly<Record<string, string>>): string {
  const { __name__: name = '', ...rest } = labels
  const pairs = Object.entries(rest).map(([label, value]) => `${label}=${JSON.stringify(value)}`)
  return `${name}{${pairs.join(', ')}}`
}
