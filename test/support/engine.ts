import { composeEngine } from '../../src/app/compose.ts'
import { ManualClock } from '../../src/core/clock.ts'
import type { QuotaOptions } from '../../src/engine/options.ts'
import { DEVICE_PROFILES } from '../../src/l0/device-profiles.ts'
import { L0_DEFAULTS } from '../../src/l0/options.ts'
import { SimulatedDevice } from '../../src/l0/simulated-device.ts'
import type { L1Options } from '../../src/l1/options.ts'
import { MetricCells } from '../../src/metrics/cells.ts'
import { Recorder } from '../../src/metrics/recorder.ts'
import type { TransferOptions } from '../../src/transfer/options.ts'
import { random } from './random.ts'
import { makeTracing } from './tracing.ts'

export const KIB = 1024

export interface EngineSetup {
  readonly seed: number
  readonly l1?: Partial<L1Options>
  /** 0 = no L0. */
  readonly l0Bytes?: number
  /** Tokens of one L0 block; a chunk has 16. */
  readonly l0BlockTokens?: number
  readonly hasBytes?: boolean
  readonly loadBudgetBytes?: number
  readonly quota?: QuotaOptions
  readonly transfer?: Partial<TransferOptions>
  /** A power of two. */
  readonly busCapacityEvents?: number
  /** Absent = nothing is traced. */
  readonly traceRatio?: number
}

/** A whole engine on one thread and a manual clock, with real bytes and a simulated device. */
export function makeEngine({
  seed,
  l1 = {},
  l0Bytes = 0,
  l0BlockTokens = 4,
  hasBytes = true,
  loadBudgetBytes,
  quota,
  transfer = {},
  busCapacityEvents = 2 ** 16,
  traceRatio,
}: EngineSetup) {
  const clock = new ManualClock()
  const cells = MetricCells.create({ maxTenants: 8, busCapacityEvents })
  const capacityBytes = l1.capacityBytes ?? 64 * KIB
  const memory = hasBytes ? new Uint8Array(capacityBytes) : null
  const tracing = traceRatio === undefined ? null : makeTracing(clock, { cells, ratio: traceRatio, seed })
  const errors: { where: string; error: unknown }[] = []
  const profile = DEVICE_PROFILES.fast!
  const device = l0Bytes === 0 ? null : new SimulatedDevice({ capacityBytes: l0Bytes, profile }, { clock })
  device?.open(l0Bytes, memory)
  const runtime = composeEngine(
    {
      engine: {
        chunkTokens: 16,
        leaseTtlMs: 1_000,
        sessions: 64,
        sweepIntervalMs: 50,
        hashInlineChunks: 16,
        models: 16,
      },
      l0: { ...L0_DEFAULTS, capacityBytes: l0Bytes, blockTokens: l0BlockTokens },
      l1: {
        capacityBytes,
        extentBytes: 4 * KIB,
        indexCapacityChunks: 2_048,
        indexCapacityShards: 2_048,
        evictionHighRatio: 0.98,
        evictionLowRatio: 0.95,
        evictionIntervalMs: 100,
        policy: 'lru',
        ghostCapacityChunks: 128,
        leaseCapacity: 256,
        leaseEntryCapacity: 8_192,
        lifecycleSampleEvery: 1,
        isolation: 'none',
        isolationModels: 1,
        pinRatioMax: 0.3,
        ...l1,
      },
      transfer: {
        storeBudgetBytes: 16 * KIB,
        storeBatches: 8,
        storePendingBytes: capacityBytes,
        storeQueueShards: 64,
        batchShards: 4,
        loadBudgetBytes: loadBudgetBytes ?? 16 * KIB,
        loadPendingBytes: capacityBytes,
        skipSlowerTokensPerSecond: 0,
        writeBackRatio: 0.5,
        prefetchJobs: 8,
        storeIntervalMs: 20,
        ...transfer,
      },
      ...(quota === undefined ? {} : { quota }),
    },
    {
      clock,
      cells,
      memory,
      device,
      random: random(seed),
      ...(tracing === null ? {} : { tracer: tracing.tracer }),
      onError: (where, error) => errors.push({ where, error }),
    },
  )
  const recorder = new Recorder(cells)
  const spans = () => tracing?.spans() ?? []
  return { ...runtime, clock, cells, memory, device, recorder, errors, spans }
}

/** Lets everything that is due at this moment of a manual clock happen, promises included. */
export async function settle(clock: ManualClock, turns = 8): Promise<void> {
  for (let turn = 0; turn < turns; turn += 1) {
    clock.advance(0)
    await new Promise<void>((resolve) => setImmediate(resolve))
  }
}
