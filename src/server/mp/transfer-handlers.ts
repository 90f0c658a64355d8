import { NO_LEASE } from '../../core/ids.ts'
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
import { chunksOf, spaceOf } from './key-spaces.ts'
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
  readonly #slots = new SlotList()
  readonly #indices: number[] = []

  constructor(parts: MpParts) {
    this.#parts = parts
  }

  async prepareStore(client: Client, { key, instanceId }: RequestOf<'prepare_store'>): Promise<ReplyPayload> {
    const { engine, sessions, clock } = this.#parts
    const instance = this.#worker(key, instanceId)
    const range = chunksOf(key, engine.options.chunkTokens)
    const space = instance === null || range === null || !instance.canStore ? null : spaceOf(this.#parts, key)
    if (instance === null || range === null || space === null) return NOTHING_TO_STORE
    const known = sessions.chainOf(sessions.open(space, key.requestId, key.tokens), range.to, client, true)
    const chain = known instanceof Promise ? await known : known
    if (chain === null) return NOTHING_TO_STORE
    const rank = key.workerId!
    const lease = instance.isReaped
      ? NO_LEASE
      : engine.reserve(space, rank, chain, range.from, range.to, instance.owner, this.#slots)
    const { count, offset, chainIndex } = this.#slots
    if (lease === NO_LEASE) return NOTHING_TO_STORE
    this.#indices.length = count
    for (let row = 0; row < count; row += 1) this.#indices[row] = chainIndex[row]! - range.from
    const { tail, shardBytes } = instance.layout
    instance.addStore(transferKey(key), { space, rank, lease, shards: count, startMs: clock.nowMs() })
    return storeReply(count, offset, this.#indices, tail, shardBytes)
  }

  /** True when every shard is readable now. A late commit of a worker that was taken for dead frees its slots. */
  commitStore({ key, instanceId }: RequestOf<'commit_store'>): ReplyPayload {
    const { engine, instances, clock } = this.#parts
    const instance = instances.find(instanceId)
    if (instance === undefined) return FALSE
    const nowMs = clock.nowMs()
    instance.lastSeenMs = nowMs
    const transfers = instance.takeStores(transferKey(key))
    let isWhole = transfers.length > 0
    for (const { space, rank, lease, shards, startMs } of transfers) {
      const stored = engine.commit(space, rank, lease)
      if (stored < shards) isWhole = false
      if (stored > 0) engine.noteCopy(space, 'store', stored * instance.layout.shardBytes, (nowMs - startMs) / 1000)
    }
    return boolReply(isWhole)
  }

  prepareRetrieve({ key, instanceId }: RequestOf<'prepare_retrieve'>): ReplyPayload {
    const { engine, sessions, clock } = this.#parts
    const instance = this.#worker(key, instanceId)
    const range = chunksOf(key, engine.options.chunkTokens)
    const space = engine.l1.spaces.find(key.model, key.salt, key.worldSize)
    const session = space === -1 ? undefined : sessions.find(space, key.requestId)
    const hold = session?.hold
    const lookup = hold?.promised
    if (instance === null || range === null || !hold || !lookup || !sessions.knows(session!, key.tokens, key.end)) {
      return NOT_RETRIEVABLE
    }
    const { from, to } = range
    const rank = key.workerId!
    const slots = this.#slots
    slots.clear()
    if (to > lookup.hitChunks) return NOT_RETRIEVABLE
    engine.renew(lookup)
    if (!engine.slots(lookup, rank, from, to, slots) || slots.count !== to - from) return NOT_RETRIEVABLE
    hold.retain()
    instance.addRetrieve(transferKey(key), { hold, rank, from, to, startMs: clock.nowMs() })
    return retrieveReply(slots.count, slots.offset, instance.layout.tail, instance.layout.shardBytes)
  }

  /** True when the leases held until now: what was copied is what was promised. */
  commitRetrieve({ key, instanceId }: RequestOf<'commit_retrieve'>): ReplyPayload {
    const { engine, instances, clock } = this.#parts
    const nowMs = clock.nowMs()
    const instance = instances.heard(instanceId, nowMs)
    const transfer = instance?.takeRetrieve(transferKey(key))
    if (instance === undefined || transfer === undefined) return FALSE
    const { hold, rank, from, to, startMs } = transfer
    const lookup = hold.promised
    const served = lookup === null ? 0 : engine.served(lookup, from, to, rank)
    if (lookup !== null && served > 0) {
      engine.noteCopy(lookup.space, 'load', served * instance.layout.shardBytes, (nowMs - startMs) / 1000)
    }
    hold.settle(from, to, 1)
    hold.release()
    return boolReply(served === to - from)
  }

  /** The worker that may act on a key: registered, alive, of this model and world, and one rank of it. */
  #worker(key: WireKey, instanceId: bigint): Instance | null {
    const instance = this.#parts.instances.heard(instanceId, this.#parts.clock.nowMs())
    if (instance === undefined || key.workerId === null) return null
    return instance.model === key.model && instance.worldSize === key.worldSize ? instance : null
  }
}

/** What ties a commit to its prepare, within one worker. */
function transferKey({ salt, workerId, start, end, requestId }: WireKey): string {
  return `${workerId} ${start} ${end} ${salt.length} ${salt}${requestId}`
}
