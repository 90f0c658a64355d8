import { percent } from './query.ts'
import { shortBytes, shortNumber } from './short-texts.ts'
import { textTable } from './table.ts'

/** What `GET /status` says, as far as the view shows it. */
export interface EngineStatus {
  readonly version: string
  readonly pid: number
  readonly startedAt: string
  readonly l1: {
    readonly capacityBytes: number
    readonly usageBytes: number
    readonly usageRatio: number
    readonly quarantinedBytes: number
    readonly openLeases: number
  }
  readonly l2: {
    readonly adapters: readonly {
      readonly name: string
      readonly type: string
      readonly state: string
      readonly [field: string]: unknown
    }[]
    readonly queuedStores: number
    readonly inflightStores: number
  }
  readonly lookups: { readonly pending: number; readonly prefetchJobs: number; readonly sessions: number }
  readonly tenants: readonly { readonly model: string; readonly salt: string; readonly l1UsageBytes: number }[]
  readonly totals: Readonly<Record<string, number>>
  readonly simulated?: readonly string[]
}

/** Changes a second between two readings; zeros before the second. */
export type EngineRates = Readonly<Record<string, number>>

export function engineRates(before: EngineStatus | undefined, now: EngineStatus, seconds: number): EngineRates {
  return Object.fromEntries(
    Object.entries(now.totals).map(([name, value]) => {
      const change = before === undefined || seconds <= 0 ? 0 : value - (before.totals[name] ?? 0)
      return [name, seconds <= 0 ? 0 : change / seconds]
    }),
  )
}

const TENANTS_SHOWN = 10

/** One engine at a glance. */
export function engineView(status: EngineStatus, rates: EngineRates): string {
  const { l1, l2, lookups, totals } = status
  const rate = (name: string) => rates[name] ?? 0
  const share = (part: number, whole: number) => percent(whole > 0 ? part / whole : null)
  const lines = [
    `kvtier ${status.version}, pid ${status.pid}, since ${status.startedAt}`,
    '',
    textTable(
      [{ title: 'hit rate' }, ...['now', 'since start'].map((title) => ({ title, align: 'right' as const }))],
      [
        [
          'all tiers',
          share(rate('hitTokens'), rate('requestedTokens')),
          share(totals.hitTokens!, totals.requestedTokens!),
        ],
        ...['L0', 'L1', 'L2'].map((tier) => [
          `  ${tier}`,
          share(rate(`hitTokens${tier}`), rate('requestedTokens')),
          share(totals[`hitTokens${tier}`]!, totals.requestedTokens!),
        ]),
        ['tokens asked for', `${shortNumber(rate('requestedTokens'))}/s`, shortNumber(totals.requestedTokens!)],
        ['chunks evicted of L1', `${shortNumber(rate('l1EvictedChunks'))}/s`, shortNumber(totals.l1EvictedChunks!)],
      ],
    ),
    '',
    `L1       ${shortBytes(l1.usageBytes)} of ${shortBytes(l1.capacityBytes)} (${percent(l1.usageRatio)}), ` +
      `${l1.openLeases} leases, ${shortBytes(l1.quarantinedBytes)} in quarantine`,
    `lookups  ${lookups.pending} waiting, ${lookups.prefetchJobs} prefetch jobs, ${lookups.sessions} sessions`,
    `stores   ${l2.queuedStores} waiting, ${l2.inflightStores} under way`,
    '',
    textTable(
      [{ title: 'L2 adapter' }, { title: 'type' }, { title: 'state' }],
      l2.adapters.map(({ name, type, state }) => [name, type, state]),
    ),
    '',
    tenantTable(status.tenants),
  ]
  return lines.join('\n')
}

function tenantTable(tenants: EngineStatus['tenants']): string {
  if (tenants.length === 0) return 'L1 holds nothing of any model.'
  const columns = [
    { title: 'model', wraps: true },
    { title: 'salt', wraps: true },
    { title: 'in L1', align: 'right' as const },
  ]
  const shown = tenants.slice(0, TENANTS_SHOWN)
  return textTable(
    columns,
    shown.map(({ model, salt, l1UsageBytes }) => [model, salt || '-', shortBytes(l1UsageBytes)]),
  )
}
