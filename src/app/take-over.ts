import type { Logger } from 'pino'
import { formatBytes } from '../config/units.ts'
import type { Engine } from '../engine/engine.ts'
import { forgetLayout, hasForgottenLayout } from '../engine/forget-layout.ts'
import type { ModelRegistry } from '../engine/model-registry.ts'
import type { Recovered } from '../l1/recovery.ts'
import type { MpServer } from '../server/mp/mp-server.ts'
import type { Checksums } from '../transfer/checksums.ts'
import type { L1Memory } from './l1-memory.ts'
import type { WarmJournal } from './warm-journal.ts'

/** What an engine has of the one before it. */
export interface TakenOver extends Recovered {
  /** Chunks whose bytes were not those that were stored, and those that followed them, were removed. */
  readonly corruptShards: number
  readonly verifiedShards: number
  readonly workers: number
}

/**
 * Fills a new engine with what L1's memory holds of the one before, and verifies it. Before anything else uses the
 * engine.
 */
export async function takeOver(
  engine: Engine,
  { leftover }: L1Memory,
  checksums: Checksums,
  logger: Logger,
): Promise<TakenOver | null> {
  let takenOver: TakenOver | null = null
  if (leftover !== null) {
    const { contents, survey } = leftover
    for (const model of contents.parts) engine.l1.spaces.parts.take(model)
    for (const space of contents.spaces) {
      if (space.isAfterRetirement === true) engine.l1.spaces.retire(space.model, space.ranks)
      engine.openSpace(space)
    }
    const recovered = engine.l1.recover(survey)
    const owners = [survey.ownerMax, ...contents.workers.map(({ owner }) => owner)]
    engine.sessions.startOwnersAfter(Math.max(...owners))
    const { shards, corrupt } = await checksums.verifyAll()
    checksums.scan()
    const workers = contents.workers.length
    takenOver = { ...recovered, verifiedShards: shards, corruptShards: corrupt, workers }
    logger.info(takenOver, lineOf(takenOver))
  }
  return takenOver
}

/** Has new key spaces, layouts and owners of parts of L1 written down, and lets new layouts take the place of those that were taken over. */
export function keepNames({
  engine,
  models,
  mp,
  journal,
  logger,
}: {
  readonly engine: Engine
  readonly models: ModelRegistry
  readonly mp: MpServer
  readonly journal: WarmJournal | null
  readonly logger: Logger
}): void {
  const retired = new Set<string>()
  const keyOf = ({ model, ranks }: { model: string; ranks: number }) => `${ranks}:${model}`
  for (const known of models.list().filter((one) => hasForgottenLayout(engine, one))) {
    forgetLayout(engine, known.model, known.ranks)
    retired.add(keyOf(known))
  }
  engine.l1.spaces.parts.onTake = (model) => journal?.part(model)
  engine.l1.spaces.onOpen = (space) => {
    journal?.space({ ...space, isAfterRetirement: retired.delete(keyOf(space)) })
  }
  models.onRegister = (model) => journal?.model(model)
  models.onReplaced = (before, now) => {
    const shards = forgetLayout(engine, now.model, now.ranks)
    retired.add(keyOf(now))
    mp.forgetWorkers(now.model, now.ranks)
    const text = `model ${JSON.stringify(now.model)} starts cold: its layout is ${now.layout} and was ${before.layout}`
    logger.warn({ shards, bytes: now.shardBytes, bytesBefore: before.shardBytes }, text)
  }
}

function lineOf({ chunks, bytes, droppedShards, corruptShards }: TakenOver): string {
  const lost = [
    ...(droppedShards === 0 ? [] : [`${droppedShards} dropped without their parent`]),
    ...(corruptShards === 0 ? [] : [`${corruptShards} dropped for a wrong checksum`]),
  ]
  return [`L1 recovered: ${chunks} chunks, ${formatBytes(bytes)}`, ...lost].join(', ')
}
