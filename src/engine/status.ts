import type { SpaceId } from '../core/ids.ts'
import { LOOPS } from '../events/counters.ts'
import type { Engine } from './engine.ts'

/** What the engine cannot know of itself. */
export interface StatusFacts {
  readonly version: string
  readonly pid: number
  readonly startedAt: string
  readonly nodeVersion: string
  /** Where the arena lies: the shared-memory name, or null when it is private to the process. */
  readonly segmentName: string | null
  /** What is not real, in words for people. */
  readonly simulated: readonly string[]
  /** Why there is no L0 device; absent when there is one, or none was asked for. */
  readonly l0Missing?: string
}

/** One JSON object about the whole engine, for `/status` and `kvtier status`. */
export function engineStatus(engine: Engine, facts: StatusFacts) {
  const { l1, cells, adapters, stores, prefetcher, options } = engine
  const { l0Missing, ...known } = facts
  return {
    ...known,
    chunkTokens: options.chunkTokens,
    l0: { ...l0Status(engine), ...(l0Missing === undefined ? {} : { missing: l0Missing }) },
    l1: {
      capacityBytes: cells.l1.get(0, 'capacityBytes'),
      usageBytes: cells.l1.get(0, 'usageBytes'),
      usageRatio: cells.l1.get(0, 'usageRatio'),
      quarantinedBytes: quarantinedBytes(engine),
      openLeases: l1.openLeases,
    },
    l2: { adapters: adapters.describe(), queuedStores: stores.queuedShards, inflightStores: stores.inflightBatches },
    lookups: { pending: engine.pendingLookups, prefetchJobs: prefetcher.activeJobs, sessions: engine.sessions.count },
    pins: engine.pins.list().length,
    tenants: tenantUsage(engine),
    totals: {
      requestedTokens: cells.engineTenants.sum('requestedTokens'),
      hitTokens: cells.engineTenants.sum('hitTokens'),
      hitTokensL0: cells.engineTenants.sum('hitTokensL0'),
      hitTokensL1: cells.engineTenants.sum('hitTokensL1'),
      hitTokensL2: cells.engineTenants.sum('hitTokensL2'),
      l1EvictedChunks: cells.l1Tenants.sum('evictedShards'),
      l1RecoveredChunks: cells.l1Tenants.sum('recoveredShards'),
    },
  }
}

/**
 * `kind` says whose blocks the L0 metrics are about: `observed` = inference servers that report theirs, `managed` =
 * those of this engine's device, which no inference server uses meanwhile; `none` = there are none.
 */
function l0Status({ device, observed }: Engine) {
  const kind = observed.servers > 0 ? 'observed' : device === null ? 'none' : 'managed'
  return { kind, observed: observed.status(), ...device?.status() }
}

/** L1 bytes by (model, salt), largest first. */
function tenantUsage(engine: Engine): { model: string; salt: string; l1UsageBytes: number }[] {
  const rows = new Map<number, { model: string; salt: string; l1UsageBytes: number }>()
  for (let id = 0; id < engine.l1.spaces.count; id += 1) {
    const { tenant, model, salt } = engine.l1.spaces.spec(id as SpaceId)
    const labels = engine.cells.tenants.labels(tenant) ?? { model, salt }
    rows.set(tenant, { ...labels, l1UsageBytes: engine.cells.l1Tenants.get(tenant, 'usageBytes') })
  }
  return [...rows.values()].sort((a, b) => b.l1UsageBytes - a.l1UsageBytes)
}

/** A loop whose last cycle is older than this is stalled. */
const STALL_MS = 10_000
/** Quarantined bytes above this share of L1 redden readiness (spec/mp-wire.md). */
const QUARANTINE_RATIO_MAX = 0.1

/** Bytes of L1 kept for writers and readers whose leases have expired. */
function quarantinedBytes({ cells }: Engine): number {
  return cells.l1.get(0, 'quarantinedBytes') + cells.l1.get(0, 'quarantinedReadBytes')
}

/** Why the engine should get no traffic; empty = ready. */
export function notReadyReasons(engine: Engine, nowMs: number): string[] {
  const { cells } = engine
  const reasons: string[] = []
  LOOPS.forEach((loop, row) => {
    const lastBeatMs = cells.loops.get(row, 'lastBeatMs')
    if (lastBeatMs === 0 || nowMs - lastBeatMs < STALL_MS) return
    reasons.push(`loop ${loop} has not run for ${((nowMs - lastBeatMs) / 1_000).toFixed(0)} s`)
  })
  const quarantined = quarantinedBytes(engine) / Math.max(1, cells.l1.get(0, 'capacityBytes'))
  if (quarantined > QUARANTINE_RATIO_MAX) {
    const share = `${(quarantined * 100).toFixed(0)} %`
    reasons.push(`${share} of L1 is quarantined behind workers that never answered: see kvtier quarantine list`)
  }
  if (engine.device?.isLost === true) reasons.push('the L0 device is lost: restart the engine to use it again')
  return reasons
}
