import type { CommandCall } from '../../src/cli/command.ts'
import { openReplayEngine } from '../../src/cli/replay-engine.ts'
import { readReplaySettings } from '../../src/cli/replay-settings.ts'
import { ManualClock, SystemClock } from '../../src/core/clock.ts'
import type { Engine } from '../../src/engine/engine.ts'
import type { L1PolicyName } from '../../src/l1/options.ts'
import type { MetricCells } from '../../src/metrics/cells.ts'
import { ChunkChecker } from '../../src/replay/chunk-checker.ts'
import { ClientPath } from '../../src/replay/client-path.ts'
import { ReplayCounts } from '../../src/replay/replay-counts.ts'
import { type Pace, VirtualPace } from '../../src/replay/replay-pace.ts'
import type { TraceBatch } from '../../src/replay/trace-batch.ts'
import { VirtualServer } from '../../src/replay/virtual-server.ts'

export interface ReplayRun {
  readonly engine: Engine
  readonly cells: MetricCells
  readonly counts: ReplayCounts
}

/** The pace of another, with something done before each request. */
class TurnPace extends VirtualPace {
  readonly #onTurn: () => void

  constructor(clock: ManualClock, onTurn: () => void) {
    super(clock, new SystemClock(), true, () => false)
    this.#onTurn = onTurn
  }

  override until(timeMs: number): Promise<void> | undefined {
    this.#onTurn()
    return super.until(timeMs)
  }
}

/**
 * Replays a trace as `kvtier replay --flat-out --metadata-only --tiers l1` does: on an engine with its default
 * options, with its loops, one request after another on virtual time.
 *
 * @param onTurn called before each request and after the last one.
 */
export async function replayOnL1(
  batch: TraceBatch,
  l1Chunks: number,
  onTurn: (cells: MetricCells) => void = () => {},
  policy: L1PolicyName = 'lru',
): Promise<ReplayRun> {
  const options = { policy, 'flat-out': true, 'metadata-only': true, tiers: 'l1', 'l1-chunks': `${l1Chunks}` }
  const settings = readReplaySettings({ positionals: [''], options } as unknown as CommandCall)
  const clock = new ManualClock()
  const onError = (where: string, error: unknown): void => {
    throw new Error(`loop ${where} failed`, { cause: error })
  }
  const { runtime, space, cells, close } = await openReplayEngine(settings, { clock, onError })
  const { engine } = runtime
  const counts = new ReplayCounts()
  const checker = new ChunkChecker(0, settings.blockBytes, counts)
  const path = new ClientPath({ engine, arena: null, chunkBytes: settings.blockBytes, counts, checker })
  const pace: Pace = new TurnPace(clock, () => onTurn(cells))
  const server = new VirtualServer(settings, { engine, space, pace, path, counts })
  await server.run(batch)
  await server.finish()
  onTurn(cells)
  engine.l1.verify()
  await close()
  return { engine, cells, counts }
}
