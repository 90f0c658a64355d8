import type { Clock } from '../../core/clock.ts'
import type { MetricCells } from '../../metrics/cells.ts'
import type { WouldHit } from '../../metrics/would-hit.ts'
import type { AdapterOverview, Overview, PathTotals } from '../../web/overview.ts'

/** Tenants of one overview at most. */
export const TENANTS_SHOWN = 10
/** The reuse curve goes from an eighth to eight times the size of L1, in steps of half an octave. */
const CURVE_OCTAVES = 3
const CURVE_STEPS = 2

const STATES = ['active', 'draining', 'failed'] as const
const CIRCUITS = ['closed', 'half_open', 'open'] as const
const STORE_FAILURES = [
  'storeFailedError',
  'storeFailedTimeout',
  'storeFailedFull',
  'storeFailedCorrupt',
  'storeFailedCancelled',
] as const
const LOAD_FAILURES = ['failureL1Oom', 'failureNotFound', 'failureCorrupt', 'failureError', 'failureCancelled'] as const

export interface OverviewParts {
  readonly cells: MetricCells
  readonly wouldHit: WouldHit
  readonly clock: Clock
  readonly version: string
  /** ISO 8601. */
  readonly startedAt: string
  readonly device: { readonly kind: string; readonly name: string } | null
}

/** Overviews of an engine, from its cells alone: the data thread is not asked. */
export class OverviewSource {
  readonly #parts: OverviewParts
  // Columns of l2Tenants.
  readonly #stored: readonly number[]
  readonly #loaded: readonly number[]
  readonly #failed: readonly number[]

  constructor(parts: OverviewParts) {
    this.#parts = parts
    const { l2Tenants } = parts.cells
    this.#stored = [l2Tenants.column('storeCompletedObjects')]
    this.#loaded = [l2Tenants.column('loadCompletedObjects')]
    this.#failed = [...STORE_FAILURES, ...LOAD_FAILURES].map((field) => l2Tenants.column(field))
  }

  read(): Overview {
    const { cells, clock, version, startedAt, device } = this.#parts
    const { l1, l1Tenants } = cells
    return {
      version,
      started_at: startedAt,
      time_ms: clock.nowMs(),
      device: device === null ? null : { kind: device.kind, name: device.name },
      tokens: this.#tokens(),
      l1: {
        capacity_bytes: l1.get(0, 'capacityBytes'),
        usage_bytes: l1.get(0, 'usageBytes'),
        quarantined_bytes: l1.get(0, 'quarantinedBytes') + l1.get(0, 'quarantinedReadBytes'),
        read_chunks: l1Tenants.sum('readShards'),
        written_chunks: l1Tenants.sum('writeShards'),
        evicted_chunks: l1Tenants.sum('evictedShards'),
      },
      paths: this.#paths(),
      adapters: this.#adapters(),
      would_hit: this.#wouldHit(),
      ...this.#tenants(),
    }
  }

  // Owners add to the whole before the part: parts are read first, so that none is ahead of its whole.
  #tokens(): Overview['tokens'] {
    const { engineTenants } = this.#parts.cells
    const hit_l2 = engineTenants.sum('hitTokensL2')
    const hit_l1 = engineTenants.sum('hitTokensL1')
    const hit_l0 = engineTenants.sum('hitTokensL0')
    const hit = engineTenants.sum('hitTokens')
    const requested = engineTenants.sum('requestedTokens')
    return { lookups: engineTenants.sum('lookups'), requested, hit, hit_l0, hit_l1, hit_l2 }
  }

  #paths(): Overview['paths'] {
    const { copyTenants, l2Tenants } = this.#parts.cells
    const totals = (table: typeof copyTenants | typeof l2Tenants, way: 'store' | 'load'): PathTotals => ({
      bytes: table.sum(`${way}Bytes`),
      busy_seconds: table.sum(`${way}BusySeconds`),
    })
    return {
      l0_l1_store: totals(copyTenants, 'store'),
      l0_l1_load: totals(copyTenants, 'load'),
      l2_store: totals(l2Tenants, 'store'),
      l2_load: totals(l2Tenants, 'load'),
    }
  }

  #adapters(): AdapterOverview[] {
    const { adapters, l2 } = this.#parts.cells
    const attached = Array.from({ length: adapters.size() }, (_, row) => row).filter((row) => adapters.isAttached(row))
    return attached.map((row) => ({
      name: adapters.label(row) ?? '',
      state: STATES[l2.get(row, 'state')] ?? 'failed',
      circuit: CIRCUITS[l2.get(row, 'circuitState')] ?? 'open',
      usage_bytes: l2.get(row, 'usageBytes'),
      capacity_bytes: l2.get(row, 'capacityBytes'),
      objects: l2.get(row, 'objects'),
      inflight_stores: l2.get(row, 'inflightStores'),
      inflight_loads: l2.get(row, 'inflightLoads'),
      stored_objects: this.#ofAdapter(row, this.#stored),
      loaded_objects: this.#ofAdapter(row, this.#loaded),
      failed_objects: this.#ofAdapter(row, this.#failed),
    }))
  }

  /** Sums of columns over all tenants of an adapter. */
  #ofAdapter(adapter: number, columns: readonly number[]): number {
    const { tenants, l2Tenants } = this.#parts.cells
    const { values, stride } = l2Tenants
    const first = adapter * tenants.rows
    const used = tenants.size()
    let total = 0
    for (const column of columns) {
      for (let tenant = 0; tenant < used; tenant += 1) total += values[(first + tenant) * stride + column]!
      total += values[(first + tenants.fold) * stride + column]!
    }
    return total
  }

  /** Rows in use, the fold included. */
  #tenantRows(): number[] {
    const { tenants } = this.#parts.cells
    return [...Array.from({ length: tenants.size() }, (_, row) => row), tenants.fold]
  }

  #wouldHit(): Overview['would_hit'] {
    const { cells, wouldHit } = this.#parts
    const capacityBytes = cells.l1.get(0, 'capacityBytes')
    const asked = wouldHit.total
    if (capacityBytes === 0 || asked <= 0) return { asked_chunks: 0, points: [] }
    const steps = CURVE_OCTAVES * CURVE_STEPS
    const sizes = Array.from({ length: 2 * steps + 1 }, (_, at) =>
      Math.round(capacityBytes * 2 ** ((at - steps) / CURVE_STEPS)),
    )
    const ratios = wouldHit.curve(sizes)
    return {
      asked_chunks: Math.round(asked),
      points: sizes.map((l1_bytes, at) => ({ l1_bytes, ratio: ratios[at]! })),
    }
  }

  #tenants(): Pick<Overview, 'tenants' | 'tenants_total'> {
    const { tenants, engineTenants, l1Tenants } = this.#parts.cells
    const rows = this.#tenantRows().map((row) => {
      const { model = '', salt = '' } = tenants.labels(row) ?? {}
      const hit_tokens = engineTenants.get(row, 'hitTokens')
      const requested_tokens = engineTenants.get(row, 'requestedTokens')
      const l1_usage_bytes = l1Tenants.get(row, 'usageBytes')
      return { model, cache_salt: salt, requested_tokens, hit_tokens, l1_usage_bytes }
    })
    const known = rows
      .filter((row) => row.requested_tokens > 0 || row.l1_usage_bytes > 0)
      .sort((a, b) => b.requested_tokens - a.requested_tokens || b.l1_usage_bytes - a.l1_usage_bytes)
    return { tenants: known.slice(0, TENANTS_SHOWN), tenants_total: known.length }
  }
}
