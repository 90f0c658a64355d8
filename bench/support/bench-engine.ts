import { randomInt } from 'node:crypto'
import { composeEngine, type EngineRuntime } from '../../src/app/compose.ts'
import type { Clock } from '../../src/core/clock.ts'
import { Tracer } from '../../src/events/tracer.ts'
import { L0_DEFAULTS } from '../../src/l0/options.ts'
import type { MetricCells } from '../../src/metrics/cells.ts'

const MIB = 1024 * 1024

export interface BenchEngineSetup {
  readonly clock: Clock
  readonly cells: MetricCells
  /** The arena's bytes; null = metadata only. */
  readonly memory: Uint8Array | null
  readonly arenaBytes: number
  readonly chunkTokens: number
  readonly hashInlineChunks: number
  /** Absent = nothing is traced. */
  readonly tracer?: Tracer
}

/** An engine of L1 alone, on this thread, with the watermarks that `serve` has. An error of a loop ends the bench. */
export function composeBenchEngine(setup: BenchEngineSetup): EngineRuntime {
  const { clock, cells, memory, arenaBytes, chunkTokens, hashInlineChunks, tracer = Tracer.off() } = setup
  const l1 = {
    capacityBytes: arenaBytes,
    extentBytes: 0,
    indexCapacityChunks: 131_072,
    indexCapacityShards: 131_072,
    evictionHighRatio: 0.998,
    evictionLowRatio: 0.996,
    evictionIntervalMs: 100,
    policy: 'lru' as const,
    ghostCapacityChunks: 8_192,
    leaseCapacity: 1_024,
    leaseEntryCapacity: 65_536,
    lifecycleSampleEvery: 1,
    isolation: 'none' as const,
    isolationModels: 1,
    pinRatioMax: 0.5,
  }
  const engine = { chunkTokens, leaseTtlMs: 30_000, sessions: 64, sweepIntervalMs: 250, hashInlineChunks, models: 8 }
  const transfer = {
    storeBudgetBytes: MIB,
    storePendingBytes: MIB,
    loadPendingBytes: MIB,
    skipSlowerTokensPerSecond: 0,
    writeBackRatio: 0.9,
    storeBatches: 8,
    storeQueueShards: 16,
    batchShards: 16,
    loadBudgetBytes: MIB,
    prefetchJobs: 1,
    storeIntervalMs: 250,
  }
  const random = (limit: number) => randomInt(limit)
  const onError = (_where: string, error: unknown): never => {
    throw error instanceof Error ? error : new Error(String(error))
  }
  return composeEngine(
    { engine, l0: L0_DEFAULTS, l1, transfer },
    { clock, cells, memory, device: null, random, onError, tracer },
  )
}
