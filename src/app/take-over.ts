import type { Logger } from 'pino'
import { formatBytes } from '../config/units.ts'
import type { Engine } from '../engine/engine.ts'
import type { Recovered } from '../l1/recovery.ts'
import type { Checksums } from '../transfer/checksums.ts'
import type { L1Memory } from './l1-memory.ts'

/** What an engine has of the one before it. */
export interface TakenOver extends Recovered {
  /** Chunks whose bytes were not those that were stored, and those that followed them, were removed. */
  readonly corruptShards: number
  readonly verifiedShards: number
  readonly workers: number
}

/**
 * Fills a new engine with what L1's memory holds of the one before, verifies it, and has what comes new written down
 * from here on. Before anything else uses the engine.
 */
export async function takeOver(
  engine: Engine,
  { leftover, journal }: L1Memory,
  checksums: Checksums,
  logger: Logger,
): Promise<TakenOver | null> {
  let takenOver: TakenOver | null = null
  if (leftover !== null) {
    const { contents, survey } = leftover
    for (const space of contents.spaces) engine.openSpace(space)
    const recovered = engine.l1.recover(survey)
    const owners = [survey.ownerMax, ...contents.workers.map(({ owner }) => owner)]
    engine.sessions.startOwnersAfter(Math.max(...owners))
    const { shards, corrupt } = await checksums.verifyAll()
    checksums.scan()
    const workers = contents.workers.length
    takenOver = { ...recovered, verifiedShards: shards, corruptShards: corrupt, workers }
    logger.info(takenOver, lineOf(takenOver))
  }
  if (journal !== null) engine.l1.spaces.onOpen = (space) => journal.space(space)
  return takenOver
}

function lineOf({ chunks, bytes, droppedShards, corruptShards }: TakenOver): string {
  const lost = [
    ...(droppedShards === 0 ? [] : [`${droppedShards} dropped without their parent`]),
    ...(corruptShards === 0 ? [] : [`${corruptShards} dropped for a wrong checksum`]),
  ]
  return [`L1 recovered: ${chunks} chunks, ${formatBytes(bytes)}`, ...lost].join(', ')
}
