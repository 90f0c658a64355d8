import { formatBytes, parseBytes } from '../config/units.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { askEngine } from './engine-http.ts'
import { usageError } from './report-error.ts'
import { shortBytes } from './short-texts.ts'
import { textTable } from './table.ts'

interface Quota {
  readonly cache_salt: string
  readonly source: 'own' | 'default'
  readonly l1_bytes: number
  readonly l2_bytes: number
  readonly l1_usage_bytes: number
  readonly l2_usage: readonly { readonly l2_name: string; readonly bytes: number }[]
}

interface QuotaList {
  readonly defaults: { readonly l1_bytes: number; readonly l2_bytes: number }
  readonly quotas: readonly Quota[]
  readonly left_out: number
}

const COLUMNS = [
  { title: 'cache salt', wraps: true },
  { title: 'quota' },
  { title: 'L1 used', align: 'right' },
  { title: 'L1 limit', align: 'right' },
  { title: 'L2 used', align: 'right' },
  { title: 'L2 limit', align: 'right' },
] as const

/** `kvtier quota list|set|remove`: quotas of cache salts of a running engine. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const verb = call.spec.name.split(' ')[1]
  if (verb === 'list') return list(call)
  return verb === 'set' ? set(call) : remove(call)
}

async function list(call: CommandCall): Promise<ExitCode> {
  const answered = (await askEngine(call, '/v1/quotas')) as QuotaList
  answer(call, answered, () => {
    const { defaults, quotas, left_out: leftOut } = answered
    const l2Usage = (quota: Quota) => Math.max(0, ...quota.l2_usage.map(({ bytes }) => bytes))
    const rows = quotas.map((quota) => [
      JSON.stringify(quota.cache_salt),
      quota.source,
      shortBytes(quota.l1_usage_bytes),
      limitText(quota.l1_bytes),
      shortBytes(l2Usage(quota)),
      limitText(quota.l2_bytes),
    ])
    rows.push(['every other', 'default', '', limitText(defaults.l1_bytes), '', limitText(defaults.l2_bytes)])
    const more = leftOut === 0 ? '' : `\n${leftOut} more salts are not shown.`
    return `${textTable(COLUMNS, rows)}${more}`
  })
  return 0
}

async function set(call: CommandCall): Promise<ExitCode> {
  const l1 = sizeOf(call, 'l1')
  const l2 = sizeOf(call, 'l2')
  if (l1 === undefined && l2 === undefined) throw usageError('quota set needs --l1, --l2 or both', '--l1')
  const body = { ...(l1 === undefined ? {} : { l1_bytes: l1 }), ...(l2 === undefined ? {} : { l2_bytes: l2 }) }
  const quota = (await askEngine(call, pathOf(call), body, 'PUT')) as Quota
  answer(call, quota, () => `L1 ${limitText(quota.l1_bytes)}, L2 ${limitText(quota.l2_bytes)} in each adapter.`)
  return 0
}

async function remove(call: CommandCall): Promise<ExitCode> {
  await askEngine(call, pathOf(call), undefined, 'DELETE')
  answer(call, { cache_salt: call.positionals[0] }, () => 'Removed: the default counts for this salt again.')
  return 0
}

function pathOf(call: CommandCall): string {
  const salt = call.positionals[0]!
  // A URL takes a segment of dots for a step up, however it is encoded.
  if (/^\.{1,2}$/.test(salt)) throw usageError(`SALT is "${salt}", which no URL can carry`, 'SALT')
  return `/v1/quotas/${encodeURIComponent(salt)}`
}

function sizeOf(call: CommandCall, name: string): number | undefined {
  const given = call.options[name]
  if (given === undefined) return undefined
  const bytes = parseBytes(String(given))
  if (bytes === undefined) {
    throw usageError(`--${name} is "${given}"; write a size such as 512MiB, or 0 for no limit`, `--${name}`)
  }
  return bytes
}

function limitText(bytes: number): string {
  return bytes === 0 ? 'no limit' : formatBytes(bytes)
}
