import type { Logger } from 'pino'
import { formatBytes } from '../config/units.ts'
import type { Engine } from '../engine/engine.ts'
import type { Recovered } from '../l1/recovery.ts'
import type { L1Memory } from './l1-memory.ts'

/**
 * Fills a new engine with what L1's memory holds of the one before, and has what comes new written down from here on.
 * Before anything else uses the engine.
 */
export function takeOver(engine: Engine, { leftover, journal }: L1Memory, logger: Logger): Recovered | null {
  let recovered: Recovered | null = null
  if (leftover !== null) {
    const { contents, survey } = leftover
    for (const space of contents.spaces) engine.openSpace(space)
    recovered = engine.l1.recover(survey)
    const owners = [survey.ownerMax, ...contents.workers.map(({ owner }) => owner)]
    engine.sessions.startOwnersAfter(Math.max(...owners))
    const { chunks, bytes, droppedShards, openLeases } = recovered
    const detail = { chunks, bytes, droppedShards, openLeases, workers: contents.workers.length }
    logger.info(detail, `L1 recovered: ${chunks} chunks, ${formatBytes(bytes)}`)
  }
  if (journal !== null) engine.l1.spaces.onOpen = (space) => journal.space(space)
  return recovered
}
