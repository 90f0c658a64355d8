import type { HashChain } from '../../core/hash-chain.ts'
import { NO_LEASE, type SpaceId } from '../../core/ids.ts'
import { outcomeOf, RETRIEVE_SPAN, SPAN_EXPIRED, type SpanKind, STORE_SPAN } from '../../events/span-kinds.ts'
import { NO_ROW, NO_SPAN, type Span } from '../../events/tracer.ts'
import { SlotList } from '../../l1/slot-list.ts'
import type { RequestOf, WireKey } from '../../protocol/mp/messages.ts'
import {
  boolReply,
  FALSE,
  NOT_RETRIEVABLE,
  NOTHING_TO_STORE,
  type ReplyPayload,
  retrieveReply,
  storeReply,
} from '../../protocol/mp/replies.ts'
import type { Client } from './clients.ts'
import type { Instance } from './instances.ts'
import { type ChunkRange, chunksOf, spaceOf } from './key-spaces.ts'
import type { LookupHold } from './lookup-hold.ts'
import type { MpSession } from './mp-sessions.ts'
import type { MpParts } from './parts.ts'

/**
 * What a worker does: it asks where to copy, copies, and says that it is done.
 *
 *   prepare_store    -> a write lease on slots for the leading run that L1 lacks -> commit_store makes them readable
 *   prepare_retrieve -> the slots that its scheduler's lookup promised           -> commit_retrieve counts them as served
 *
 * A worker that is unknown, or whose key is not of the model it registered, gets the "no" of the operation. The bytes
 * of a slot are the worker's between the two calls; nothing else reads or writes them.
 */
export class TransferHandlers {
  readonly #parts: MpParts
  readonly #heard: (instanceId: bigint) => Instance | undefined
  readonly #slots = new SlotList()
  readonly #indices: number[] = []

  /** @param heard see `WorkerHandlers.heard`. */
  constructor(parts: MpParts, heard: (instanceId: bigint) => Instance | undefined) {
    this.#parts = parts
    this.#heard = heard
  }

  /** Later, when the prompt has to be hashed elsewhere. */
  prepareStore(client: Client, { key, instanceId }: RequestOf<'prepare_store'>): ReplyPayload | Promise<ReplyPayload> {
    const { engine, sessions } = this.#parts
    const instance = this.#worker(key, instanceId)
    const range = chunksOf(key, engine.options.chunkTokens)
    if (instance === null || range === null || !instance.canStore(transferKey(key))) return NOTHING_TO_STORE
    const space = spaceOf(this.#parts, key)
    if (space === null) return NOTHING_TO_STORE
    const session = sessions.open(space, key.requestId, key.tokens, client)
    const known = sessions.chainOf(session, range.to, client, true)
    if (!(known instanceof Promise)) return this.#grant(instance, key, range, session, known)
    return known.then((chain) => {
      const hasChanged = this.#parts.instances.find(instanceId) !== instance || !instance.canStore(transferKey(key))
      const isWanted = chain !== null && !instance.isReaped && !hasChanged
      return isWanted ? this.#grant(instance, key, range, session, chain) : NOTHING_TO_STORE
    })
  }

  /** True when every shard is readable now. A late commit of a worker that was taken for dead frees its slots. */
  commitStore({ key, instanceId }: RequestOf<'commit_store'>): ReplyPayload {
    const { engine, instances, clock } = this.#parts
    const instance = instances.find(instanceId)
    if (instance === undefined) return FALSE
    const nowMs = clock.nowMs()
    instance.lastSeenMs = nowMs
    const transfer = instance.takeStore(transferKey(key))
    if (transfer === undefined) return FALSE
    const { space, rank, lease, shards, startMs, span = NO_SPAN } = transfer
    const stored = engine.commit(space, rank, lease, span)
    this.#endSpan(span, space, shards, stored)
    if (stored > 0) engine.noteCopy(space, 'store', stored * instance.layout.shardBytes, (nowMs - startMs) / 1000)
    instances.forgetIfDone(instance)
    return boolReply(stored === shards)
  }

  prepareRetrieve({ key, instanceId }: RequestOf<'prepare_retrieve'>): ReplyPayload {
    const { engine, sessions, clock, counts } = this.#parts
    const instance = this.#worker(key, instanceId)
    const range = chunksOf(key, engine.options.chunkTokens)
    const space = engine.l1.spaces.find(key.model, key.salt, key.worldSize)
    const session = space === -1 ? undefined : sessions.find(space, key.requestId)
    const hold = session?.hold
    const lookup = hold?.promised
    if (instance === null || range === null || !hold || !lookup || !sessions.knows(session!, key.tokens, key.end)) {
      return NOT_RETRIEVABLE
    }
    if (!this.#fits(instance, lookup.space)) return NOT_RETRIEVABLE
    if (!instance.canRetrieve || this.#isQuarantineFull()) {
      counts.heldBack += range.to - range.from
      return NOT_RETRIEVABLE
    }
    const { from, to } = range
    const rank = key.workerId!
    const slots = this.#slots
    slots.clear()
    if (to > lookup.hitChunks) return NOT_RETRIEVABLE
    engine.renew(lookup)
    if (!engine.slots(lookup, rank, from, to, slots) || slots.count !== to - from) return NOT_RETRIEVABLE
    slots.offsetsFrom(this.#segmentStart(lookup.space))
    hold.beginCopy(from, to)
    const span = this.#beginSpan(RETRIEVE_SPAN, key, hold)
    instance.addRetrieve(transferKey(key), { hold, rank, from, to, startMs: clock.nowMs(), span })
    return retrieveReply(slots.count, slots.offset, instance.layout.tail, instance.layout.shardBytes)
  }

  /** True when the leases held until now: what was copied is what was promised. Late or not, its slots are free then. */
  commitRetrieve({ key, instanceId }: RequestOf<'commit_retrieve'>): ReplyPayload {
    const { engine, instances, clock } = this.#parts
    const nowMs = clock.nowMs()
    const instance = instances.find(instanceId)
    if (instance === undefined) return FALSE
    instance.lastSeenMs = nowMs
    const transfer = instance.takeRetrieve(transferKey(key))
    if (transfer === undefined) return FALSE
    const { hold, rank, from, to, startMs, span = NO_SPAN } = transfer
    const lookup = hold.promised
    const served = lookup === null ? 0 : engine.served(lookup, from, to, rank)
    if (lookup !== null && served > 0) {
      engine.noteCopy(lookup.space, 'load', served * instance.layout.shardBytes, (nowMs - startMs) / 1000)
    }
    this.#endSpan(span, lookup?.space ?? null, to - from, served === 0 ? -1 : served)
    hold.settle(from, to, 1)
    hold.endCopy(from, to)
    instances.forgetIfDone(instance)
    return boolReply(served === to - from)
  }

  /** Slots for the leading run of a range that L1 lacks, under a write lease. */
  #grant(instance: Instance, key: WireKey, range: ChunkRange, session: MpSession, chain: HashChain): ReplyPayload {
    const { engine, clock } = this.#parts
    const { space } = session
    const rank = key.workerId!
    if (!this.#fits(instance, space)) return NOTHING_TO_STORE
    const to = this.#roomFor(instance, space, rank, chain, range)
    if (to === range.from) return NOTHING_TO_STORE
    const lease = engine.reserve(space, rank, chain, range.from, to, instance.owner, this.#slots)
    if (lease === NO_LEASE) return NOTHING_TO_STORE
    this.#slots.offsetsFrom(this.#segmentStart(space))
    const { count, offset, chainIndex } = this.#slots
    this.#indices.length = count
    for (let row = 0; row < count; row += 1) this.#indices[row] = chainIndex[row]! - range.from
    const { tail, shardBytes } = instance.layout
    const span = this.#beginSpan(STORE_SPAN, key, session.hold)
    instance.addStore(transferKey(key), { space, rank, lease, shards: count, startMs: clock.nowMs(), span })
    return storeReply(count, offset, this.#indices, tail, shardBytes)
  }

  /**
   * The end of the range for which a worker may get slots. What all workers may write to, expired or not, stays within
   * a share of L1, and of the model's part of it; what one of them may, within half of that: none of them can be told to
   * stop, so no more is ever lost to those that die, and one that dies leaves room for the others.
   */
  #roomFor(instance: Instance, space: SpaceId, rank: number, chain: HashChain, range: ChunkRange): number {
    const { engine, instances, heldBytesMax, counts } = this.#parts
    const kept = instances.heldBytes + engine.cells.l1.get(0, 'quarantinedReadBytes')
    const roomBytes = Math.min(heldBytesMax - kept, heldBytesMax / 2 - instance.heldBytes)
    const { count } = engine.l1.spaces.parts
    const ofPart = count === 1 ? roomBytes : heldBytesMax / count - instances.heldBytesOf(instance.model)
    const room = Math.max(0, Math.floor(Math.min(roomBytes, ofPart) / instance.layout.shardBytes))
    const { from } = range
    let { to } = range
    while (to - from > room) {
      const excess = engine.l1.queries.absent(space, rank, chain, from, to) - room
      if (excess <= 0) break
      to -= excess
    }
    counts.heldBack += range.to - to
    return to
  }

  /** Whether slots of a space are as long as what the worker copies. */
  #fits({ layout }: Instance, space: SpaceId): boolean {
    return this.#parts.engine.l1.spaces.spec(space).shardBytes === layout.shardBytes
  }

  /** Where the segment begins that the workers of a space have mapped. */
  #segmentStart(space: SpaceId): number {
    const { spaces } = this.#parts.engine.l1
    return spaces.spec(space).part * spaces.parts.partBytes
  }

  /** A part of what the client says, else of what its scheduler's lookup began, if that is recorded. */
  #beginSpan(kind: SpanKind, { traceparent }: WireKey, hold: LookupHold | null): Span {
    const { tracer } = this.#parts.engine
    if (traceparent === undefined && hold !== null) return tracer.child(kind, hold.span)
    return tracer.remote(kind, traceparent)
  }

  /** @param done shards; -1 = the lease had ended. */
  #endSpan(span: Span, space: SpaceId | null, shards: number, done: number): void {
    if (span === NO_SPAN) return
    const { tracer, l1 } = this.#parts.engine
    const { tenant, shardBytes } = space === null ? { tenant: NO_ROW, shardBytes: 0 } : l1.spaces.spec(space)
    const outcome = done < 0 ? SPAN_EXPIRED : outcomeOf(done, shards)
    tracer.end(span, outcome, tenant, NO_ROW, shards, Math.max(0, done) * shardBytes, Math.max(0, done))
  }

  #isQuarantineFull(): boolean {
    const { engine, heldBytesMax } = this.#parts
    const { l1 } = engine.cells
    return l1.get(0, 'quarantinedBytes') + l1.get(0, 'quarantinedReadBytes') >= heldBytesMax
  }

  /** The worker that may act on a key: registered, alive, of this model and world, and one rank of it. */
  #worker(key: WireKey, instanceId: bigint): Instance | null {
    const instance = this.#heard(instanceId)
    if (instance === undefined || key.workerId === null) return null
    return instance.model === key.model && instance.worldSize === key.worldSize ? instance : null
  }
}

/** What ties a commit to its prepare, within one worker. */
function transferKey({ salt, workerId, start, end, requestId }: WireKey): string {
  return `${workerId} ${start} ${end} ${salt.length} ${salt}${requestId}`
}
