import { randomUUID } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { HashChain } from '../core/hash-chain.ts'
import { isSharing, type SharingDevice } from '../l0/device.ts'
import type { ProcessIdentity } from '../native/process-identity.ts'
import { layoutOf, type TokenShape, tensorShape, tokenBytes, tokensOfBlock } from './block-shape.ts'
import type { DevicePath, DeviceRequest } from './device-path.ts'
import type { DeviceTimelines, Timeline, TimelinePoint, TimelineRequest } from './device-timelines.ts'
import type { Engine } from './engine.ts'
import type { Lookup } from './lookup.ts'
import { checkSalt, type ModelRegistry, type RegisteredModel } from './model-registry.ts'
import type { PromptHasher } from './prompt-hasher.ts'

// L0 in managed mode for other processes: the pool is the engine's, an inference process maps it by its IPC handle and
// borrows blocks of it.
//
//   open --> borrower --silent for its time--> late --any call--> borrower
//               | close                          | close, or its process is seen to be gone
//               v                                v
//             its holds end; each hold's blocks are free after the copies under way
//
//   a hold:  take: cached chunks are brought up, blocks for the rest --> it computes --> commit: readable for others,
//            copied down --> release
//
// Nothing is taken from a late borrower: its kernels may still write to its blocks. That they cannot is known when its
// process is gone, or when it or an operator closes it.

/** Who wants blocks, of which model. */
export interface BorrowerRequest {
  readonly model: string
  readonly shape: TokenShape
  /** Absent = it cannot be watched: what it holds when it dies stays so until somebody closes it. */
  readonly process?: ProcessIdentity
  readonly timeline?: TimelineRequest
  readonly ttlMs: number
}

export interface BorrowedBlocksParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly models: ModelRegistry
  readonly hasher: PromptHasher
  readonly timelines: DeviceTimelines
  readonly isRunning: (process: ProcessIdentity) => boolean
}

/** A prompt that blocks are wanted for. */
export interface TakeRequest {
  readonly salt: string
  readonly tokens: Uint32Array
  /** More tokens at its end, not known yet. */
  readonly extraTokens: number
}

interface Hold {
  readonly lookup: Lookup
  readonly request: DeviceRequest
  state: 'filling' | 'committing' | 'committed'
}

interface Borrower {
  readonly id: string
  readonly model: RegisteredModel
  readonly blockTokens: number
  readonly process: ProcessIdentity | null
  readonly timeline: Timeline | null
  readonly ttlMs: number
  readonly holds: Map<string, Hold>
  expiresMs: number
}

/** Borrowers at most, and holds of one. */
const BORROWERS_MAX = 64
const HOLDS_MAX = 65_536

/** Inference processes that work in blocks of the engine's pool, by opaque id. */
export class BorrowedBlocks {
  readonly #parts: BorrowedBlocksParts
  readonly #borrowers = new Map<string, Borrower>()

  constructor(parts: BorrowedBlocksParts) {
    this.#parts = parts
  }

  /**
   * Lends the pool: registers the model with the layout that its blocks have there, and cuts the pool if it is the first.
   *
   * @throws CacheError DEVICE_UNAVAILABLE, DEVICE_FAULT, BAD_REQUEST, LAYOUT_MISMATCH, NO_ROOM
   */
  open({ model: name, shape, process, timeline: wanted, ttlMs }: BorrowerRequest) {
    const { engine, models, timelines, clock, isRunning } = this.#parts
    const { device, path } = this.#device()
    if (this.#borrowers.size >= BORROWERS_MAX)
      throw noRoom(`${BORROWERS_MAX} processes borrow blocks, which is the limit`)
    const { chunkTokens } = engine.options
    const shardBytes = tokenBytes(shape) * chunkTokens
    const blockBytes = path.blocks.blockBytesFor({ chunkBytes: shardBytes, chunkTokens })
    const blockTokens = tokensOfBlock(shape, blockBytes, chunkTokens)
    const handle = device.exportPool()
    const model = { model: name, shardBytes, ranks: 1, layout: layoutOf(shape, blockTokens) }
    models.register(model)
    engine.openSpace({ ...model, salt: '' })
    const timeline = wanted === undefined ? null : timelines.open(device, wanted)
    const isWatched = process !== undefined && isRunning(process)
    const id = randomUUID()
    const expiresMs = clock.nowMs() + ttlMs
    const watched = isWatched ? process : null
    const common = { id, model, blockTokens, process: watched, timeline, ttlMs }
    this.#borrowers.set(id, { ...common, holds: new Map(), expiresMs })
    const blocks = path.blocks.capacityBlocks
    return {
      borrowerId: id,
      handle,
      poolBytes: blocks * blockBytes,
      blocks,
      blockBytes,
      blockTokens,
      chunkTokens,
      shape: tensorShape(shape, blocks, blockTokens),
      dtype: shape.dtype,
      isWatched,
      ttlMs,
    }
  }

  /** Gives a borrower its full time again, and the leases of what it holds. */
  renew(id: string): boolean {
    const borrower = this.#borrowers.get(id)
    if (borrower === undefined) return false
    this.#touch(borrower)
    for (const { lookup } of borrower.holds.values()) this.#parts.engine.renew(lookup)
    return true
  }

  /**
   * Ends a borrower and all that it holds: it, or whoever closes it, says that its kernels write no more. Resolves when
   * its timeline is not mapped any more. False = there is no such borrower.
   */
  async close(id: string): Promise<boolean> {
    const borrower = this.#borrowers.get(id)
    if (borrower === undefined) return false
    this.#borrowers.delete(id)
    for (const hold of borrower.holds.values()) this.#end(hold)
    borrower.holds.clear()
    await borrower.timeline?.close()
    return true
  }

  /**
   * Blocks for a prompt. The leading `cachedChunks` hold their bytes already, put there before this resolves; the others
   * are the borrower's to fill, the last ones of the tokens after the last whole chunk.
   *
   * @throws CacheError NOT_FOUND, BAD_REQUEST, NO_ROOM, DEVICE_FAULT
   */
  async take(id: string, { salt, tokens, extraTokens }: TakeRequest) {
    checkSalt(salt)
    const { engine, hasher } = this.#parts
    const { chunkTokens } = engine.options
    const { model, holds, blockTokens } = this.#find(id)
    if (tokens.length + extraTokens === 0) throw refused('tokens', 'blocks are for one token at least')
    if (holds.size >= HOLDS_MAX) throw noRoom(`a borrower has ${HOLDS_MAX} holds at most`)
    const space = engine.openSpace({ ...model, salt })
    const chain = new HashChain(0)
    await hasher.extend(chain, { tokens, chunkTokens, space, asker: this })
    const owner = engine.sessions.nextOwner()
    const lookup = await new Promise<Lookup>((resolve) => engine.lookup(space, chain, owner, resolve))
    const { path } = this.#device()
    const request = path.begin(lookup)
    const hold: Hold = { lookup, request, state: 'filling' }
    const cachedChunks = await new Promise<number>((resolve) => path.fetch(engine, request, resolve))
    const tail = tokens.length + extraTokens - chain.count * chunkTokens
    const isTaken =
      cachedChunks === lookup.hitChunks &&
      (cachedChunks === chain.count || path.extend(request)) &&
      (tail === 0 || path.blocks.allocateTail(request.table, tail))
    const borrower = this.#borrowers.get(id) // it may have gone meanwhile
    if (!isTaken || borrower === undefined) {
      this.#end(hold)
      if (path.isLost) throw new CacheError('DEVICE_FAULT', 'the device is lost')
      if (borrower === undefined) throw gone('id')
      throw noRoom('the pool has no room for the blocks of this prompt: release some first')
    }
    const blocks = new Int32Array((chain.count * chunkTokens) / blockTokens + Math.ceil(tail / blockTokens))
    path.blocks.blocksOf(request.table, blocks)
    if (cachedChunks === chain.count) this.#settle(hold)
    const holdId = randomUUID()
    borrower.holds.set(holdId, hold)
    return { holdId, blocks, cachedTokens: cachedChunks * chunkTokens }
  }

  /**
   * The blocks of whole chunks hold their bytes: others may read them from now on, and they are copied down to L1. Does
   * nothing the second time.
   *
   * @param wait a word by which the borrower's stream says so; absent = they do already.
   * @returns chunks that became readable in L1.
   * @throws CacheError NOT_FOUND, BAD_REQUEST, CHUNK_BUSY, LEASE_EXPIRED, DEVICE_TIMEOUT, DEVICE_FAULT
   */
  async commit(id: string, holdId: string, wait?: TimelinePoint): Promise<number> {
    const borrower = this.#find(id)
    const hold = borrower.holds.get(holdId)
    if (hold === undefined) throw gone('hold')
    if (hold.state === 'committed') return 0
    if (hold.state === 'committing') throw new CacheError('CHUNK_BUSY', 'these blocks are being committed')
    if (wait !== undefined) {
      if (borrower.timeline === null) throw refused('wait', 'this borrower has no timeline')
      borrower.timeline.check(wait)
      hold.state = 'committing'
      try {
        await borrower.timeline.reached(wait)
      } catch (error) {
        hold.state = 'filling'
        throw error
      }
      // Its blocks are given back: nothing of them may be read or copied.
      if (borrower.holds.get(holdId) !== hold)
        throw new CacheError('LEASE_EXPIRED', 'the blocks were released meanwhile')
    }
    const { path } = this.#device()
    hold.state = 'committing'
    path.computed(hold.request)
    const chunks = await new Promise<number>((resolve) => path.store(this.#parts.engine, hold.request, resolve))
    this.#settle(hold)
    return chunks
  }

  /** Gives the blocks of a hold back. What was committed stays for reuse. False when there is no such hold. */
  release(id: string, holdId: string): boolean {
    const borrower = this.#borrowers.get(id)
    const hold = borrower?.holds.get(holdId)
    if (borrower === undefined || hold === undefined) return false
    this.#touch(borrower)
    borrower.holds.delete(holdId)
    this.#end(hold)
    return true
  }

  /** Closes borrowers that are late and whose processes are gone. Run by the lease loop. */
  sweep(): void {
    const nowMs = this.#parts.clock.nowMs()
    for (const { id, process, expiresMs } of this.#borrowers.values()) {
      if (expiresMs <= nowMs && process !== null && !this.#parts.isRunning(process)) void this.close(id)
    }
  }

  /** For `/status`. */
  status() {
    const nowMs = this.#parts.clock.nowMs()
    return [...this.#borrowers.values()].map(({ id, model, process, timeline, holds, expiresMs }) => ({
      id,
      model: model.model,
      pid: process?.pid ?? null,
      holds: holds.size,
      isLate: expiresMs <= nowMs,
      hasTimeline: timeline !== null,
    }))
  }

  /** Everything is on its way: L1 need not keep what the prompt began with. */
  #settle(hold: Hold): void {
    hold.state = 'committed'
    this.#parts.engine.release(hold.lookup)
  }

  #end({ lookup, request }: Hold): void {
    this.#parts.engine.device!.end(request)
    this.#parts.engine.release(lookup)
  }

  #touch(borrower: Borrower): void {
    borrower.expiresMs = this.#parts.clock.nowMs() + borrower.ttlMs
  }

  #find(id: string): Borrower {
    const borrower = this.#borrowers.get(id)
    if (borrower === undefined) throw gone('id')
    this.#touch(borrower)
    return borrower
  }

  #device(): { device: SharingDevice; path: DevicePath } {
    const path = this.#parts.engine.device
    if (path !== null && isSharing(path.device)) return { device: path.device, path }
    throw new CacheError('DEVICE_UNAVAILABLE', 'this engine has no GPU that other processes can share')
  }
}

function refused(field: string, reason: string): CacheError {
  return new CacheError('BAD_REQUEST', `${field}: ${reason}`, { field })
}

function gone(field: string): CacheError {
  return new CacheError('NOT_FOUND', 'there is no such borrower or hold: its engine may have started anew', { field })
}

function noRoom(reason: string): CacheError {
  return new CacheError('NO_ROOM', reason)
}
