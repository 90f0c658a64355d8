import { randomInt } from 'node:crypto'
import type { Logger } from 'pino'
import type { ServeConfig } from '../config/load-config.ts'
import type { Clock } from '../core/clock.ts'
import type { Tracer } from '../events/tracer.ts'
import type { Device } from '../l0/device.ts'
import type { MetricCells } from '../metrics/cells.ts'
import { Checksums } from '../transfer/checksums.ts'
import { composeEngine, type EngineRuntime } from './compose.ts'
import type { EngineActs } from './engine-acts.ts'
import type { IoPool } from './io-pool.ts'
import type { L1Memory } from './l1-memory.ts'
import { type TakenOver, takeOver } from './take-over.ts'

export interface RuntimeParts {
  readonly config: ServeConfig
  readonly logger: Logger
  readonly clock: Clock
  readonly cells: MetricCells
  readonly device: Device | null
  readonly memory: L1Memory
  readonly pool: IoPool
  readonly tracer: Tracer
  readonly acts: EngineActs
}

/** The engine of a process that serves: over memory that outlives it, with what is left there of the one before. */
export async function startRuntime(
  parts: RuntimeParts,
): Promise<{ runtime: EngineRuntime; takenOver: TakenOver | null }> {
  const { config, logger, clock, cells, device, memory, pool, tracer, acts } = parts
  const { segment, tables, startMs } = memory
  const onError = (where: string, error: unknown) => logger.warn({ err: error, where }, 'failed')
  const runtime = composeEngine(config, {
    clock,
    cells,
    memory: segment.memory,
    l1: {
      ...(tables === undefined ? {} : { tables }),
      ...(startMs === undefined ? {} : { startMs }),
      onReadable: (id, generation, rank) => checksums.note(id, generation, rank),
    },
    device,
    tracer,
    random: (limit) => randomInt(limit),
    onError,
    onAdapterState: (name, state, before) => {
      logger.info({ adapter: name, state, before }, 'adapter state')
      acts.adapterState(name, state)
    },
    onAdapterReached: (name) => logger.info({ adapter: name }, 'an adapter that was away at the start was reached'),
  })
  const checksums = new Checksums({ l1: runtime.engine.l1, clock, port: pool, onError })
  const takenOver = await takeOver(runtime.engine, memory, checksums, logger)
  return { runtime, takenOver }
}
