import { CacheError } from '../../core/errors.ts'
import { CURRENT_GENERATION } from '../../protocol/mp/generations.ts'
import type { RequestOf, WireContext } from '../../protocol/mp/messages.ts'
import { FALSE, NONE, segmentReply, TRUE } from '../../protocol/mp/replies.ts'
import type { Client } from './clients.ts'
import type { Instance } from './instances.ts'
import { type MpParts, REFUSED, type RegisteredWorker, type Reply } from './parts.ts'
import { layoutOf, type ShardLayout } from './shard-layout.ts'

/** Unknown workers at most that are remembered to have been told so. */
const TOLD_MAX = 1024
/** Registrations at most that are remembered for workers that fall silent. */
const REMEMBERED_MAX = 1024

type Registration = Pick<RegisteredWorker, 'context' | 'generation'>

/**
 * Workers coming, going, and falling silent.
 *
 *   register --> live --(silent too long)--> reaped: its write leases are quarantined, its read leases as they expire
 *                 |                            |
 *                 |                            +-- commit_store, commit_retrieve: that transfer's slots are free
 *                 '-- unregister --> gone <----+-- registers again, unregisters, operator: all are free
 *                                              '-- nothing is open: live again as soon as it is heard of
 *
 * Some clients register once and never look at the answer to a heartbeat (SGLang): taken for dead for good, they would
 * go on without a cache until somebody restarts them.
 */
export class WorkerHandlers {
  readonly #parts: MpParts
  readonly #told = new Set<bigint>()
  /** What workers registered, the latest last. */
  readonly #remembered = new Map<bigint, Registration>()

  constructor(parts: MpParts) {
    this.#parts = parts
  }

  register(client: Client, { context }: RequestOf<'register_kv_cache_engine_driven_context'>): Reply {
    const { segments, engine, counts, log } = this.#parts
    try {
      this.#register({ context, generation: (client.generation ?? CURRENT_GENERATION).clients })
    } catch (error) {
      if (!(error instanceof CacheError)) throw error
      counts.refused += 1
      log.warn({ model: context.model, instance: String(context.instanceId) }, `a worker is refused: ${error.message}`)
      return REFUSED
    }
    const segment = segments[engine.l1.spaces.parts.find(context.model)]!
    segment.restoreName()
    return segmentReply(segment.name, segment.bytes)
  }

  unregister(instanceId: bigint): Reply {
    const { instances, engine } = this.#parts
    instances.find(instanceId)?.end(engine.l1)
    instances.remove(instanceId)
    this.#remembered.delete(instanceId)
    engine.observed.instanceGone(instanceId)
    return NONE
  }

  /** The worker, heard of just now; one that was taken for dead with nothing open is known again. Undefined = unknown. */
  heard(instanceId: bigint): Instance | undefined {
    const { instances, clock, log } = this.#parts
    const found = instances.heard(instanceId, clock.nowMs())
    const remembered = this.#remembered.get(instanceId)
    if (found !== undefined || remembered === undefined || !instances.fellSilent(instanceId)) return found
    try {
      this.#register(remembered)
      return instances.find(instanceId)
    } catch (error) {
      if (!(error instanceof CacheError)) throw error
      this.#remembered.delete(instanceId)
      log.warn({ instance: String(instanceId) }, `a worker is not known any more: ${error.message}`)
      return undefined
    }
  }

  /** A worker that is not known, after a cold start for instance, is told so by one "no": it registers again. */
  ping(client: Client, instanceId: bigint | null): Reply {
    client.hasPinged = true
    if (instanceId === null) return TRUE
    const instance = this.heard(instanceId)
    if (instance !== undefined) {
      instance.hasPinged = true
      return TRUE
    }
    if (this.#told.delete(instanceId)) return TRUE
    if (this.#told.size >= TOLD_MAX) this.#told.clear()
    this.#told.add(instanceId)
    return FALSE
  }

  /**
   * Knows a worker again that registered with an earlier engine. One whose layout another has replaced is dead, and known
   * for as long as it may copy: who is not known could not say that it is done.
   */
  restore({ context, owner, generation }: RegisteredWorker): void {
    const { engine, models, instances, clock, log } = this.#parts
    const { instanceId, model, worldSize } = context
    try {
      const layout = layoutOf(context, engine.options.chunkTokens)
      const known = models.find(model).find((one) => one.ranks === worldSize)
      if (known === undefined)
        models.restore({ model, shardBytes: layout.shardBytes, ranks: worldSize, layout: layout.text })
      if (instances.isFull) return
      const instance = instances.add({ id: instanceId, model, worldSize, layout, owner }, clock.nowMs())
      instance.restore(engine.l1, clock.nowMs())
      if (known !== undefined && known.layout !== layout.text) {
        instance.reap(engine.l1)
        instances.forgetIfDone(instance)
      } else this.#remember({ context, generation })
    } catch (error) {
      if (!(error instanceof CacheError)) throw error
      log.warn({ model, instance: String(instanceId) }, `a worker is not known any more: ${error.message}`)
    }
  }

  /** See `MpServer.forgetWorkers`. */
  forget(model: string, worldSize: number): void {
    const { instances, engine } = this.#parts
    for (const instance of instances.list()) {
      if (instance.model !== model || instance.worldSize !== worldSize) continue
      instance.reap(engine.l1)
      instances.forgetIfDone(instance)
    }
  }

  /** Reaps who was silent for longer than `silentMs`, or `graceMs` when it never sent a heartbeat. */
  sweep(nowMs: number, silentMs: number, graceMs: number): void {
    const { instances, engine, counts, log } = this.#parts
    for (const instance of instances.list()) {
      const silenceMs = nowMs - instance.lastSeenMs
      if (instance.isReaped || silenceMs <= (instance.hasPinged ? silentMs : graceMs)) continue
      instance.reap(engine.l1)
      engine.observed.instanceGone(instance.id)
      counts.reapedInstances += 1
      instances.forgetIfDone(instance)
      const { model, id, openTransfers } = instance
      const detail = { model, instance: String(id), openTransfers }
      log.warn(detail, `a worker is taken for dead: silent for ${Math.round(silenceMs / 1000)} s`)
    }
  }

  #register(registration: Registration): void {
    const { engine, models, instances, segments, clock, log } = this.#parts
    const { context, generation } = registration
    const { instanceId, model, worldSize } = context
    if (segments[0]!.name === '') {
      throw new CacheError('SHARED_MEMORY_UNAVAILABLE', 'L1 is private memory on this machine: no worker can map it')
    }
    const layout = layoutOf(context, engine.options.chunkTokens)
    models.register({ model, shardBytes: layout.shardBytes, ranks: worldSize, layout: layout.text })
    engine.l1.spaces.parts.take(model)
    const known = instances.find(instanceId)
    if (known !== undefined && !known.isReaped && !known.isAwaited && isSame(known, context, layout)) {
      known.lastSeenMs = clock.nowMs()
      known.releaseLate(engine.l1)
      return
    }
    known?.end(engine.l1)
    if (known === undefined && instances.isFull) {
      throw new CacheError('NO_ROOM', 'too many workers are registered', { field: 'instance_id' })
    }
    this.#told.delete(instanceId)
    this.#remember(registration)
    const owner = engine.sessions.nextOwner()
    this.#parts.journal?.worker({ context, owner, generation })
    instances.add({ id: instanceId, model, worldSize, layout, owner }, clock.nowMs())
    log.info({ model, worldSize, layout: layout.text, instance: String(instanceId) }, 'a worker registered')
  }

  #remember(registration: Registration): void {
    const { instanceId } = registration.context
    this.#remembered.delete(instanceId)
    if (this.#remembered.size >= REMEMBERED_MAX) this.#remembered.delete(this.#remembered.keys().next().value!)
    this.#remembered.set(instanceId, registration)
  }
}

function isSame(known: Instance, { model, worldSize }: WireContext, layout: ShardLayout): boolean {
  return known.model === model && known.worldSize === worldSize && known.layout.text === layout.text
}
