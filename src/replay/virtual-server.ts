import { assert } from '../core/assert.ts'
import { HashChain } from '../core/hash-chain.ts'
import { NO_LEASE, type SpaceId } from '../core/ids.ts'
import type { Engine, TierChoice } from '../engine/engine.ts'
import type { Lookup } from '../engine/lookup.ts'
import { SlotList } from '../l1/slot-list.ts'
import { fillPattern, matchesPattern } from './chunk-pattern.ts'
import { ReplayCounts } from './replay-counts.ts'
import type { Pace } from './replay-pace.ts'
import type { TraceBatch } from './trace-batch.ts'
import { traceKeys } from './trace-keys.ts'

export interface VirtualServerOptions {
  /** Tokens of one block of the trace; the engine's chunks have the same size. */
  readonly blockTokens: number
  readonly prefillTokensPerSecond: number
  /** 0: output takes no time. */
  readonly decodeTokensPerSecond: number
  readonly tiers: TierChoice
  /** One of this many fetched chunks is compared with what was stored; 0 = none. */
  readonly verifyEvery: number
}

export interface VirtualServerParts {
  readonly engine: Engine
  readonly space: SpaceId
  readonly pace: Pace
  /** The bytes of L1, or null when only metadata is kept. */
  readonly arena: Uint8Array | null
  /** Told now and then, with the counts so far. */
  readonly onProgress?: (counts: ReplayCounts) => void
}

/** One request on its way. Used again for a later one. */
interface Flight {
  readonly chain: HashChain
  readonly grants: SlotList
  lookup: Lookup | null
  promptTokens: number
  outputTokens: number
}

/** Requests under way at once; later ones wait. */
const FLIGHTS_MAX = 4096
/** Requests between two looks at the wall clock's needs. */
const BREATHE_REQUESTS = 256

/**
 * An inference server that computes nothing: it asks the engine for each request of a trace, fetches what is
 * promised, lets the time of the prefill pass, and stores the chunks it would have computed.
 *
 *   arrival -> lookup -> [L2 answers] -> fetch -> [prefill] -> reserve, write, commit -> release -> [decode] -> end
 *
 * Sequential: what is in brackets is over before the next request arrives, and prefill takes no time.
 * Otherwise requests overlap as their times have it, each with a GPU of its own.
 */
export class VirtualServer {
  readonly counts = new ReplayCounts()
  readonly #options: VirtualServerOptions
  readonly #parts: VirtualServerParts
  readonly #free: Flight[] = []
  readonly #scratch: Uint8Array
  readonly #fetched: Uint8Array
  readonly #slots = new SlotList()
  readonly #startMs: number
  #firstMs = -1
  #active = 0
  #fetchedChunks = 0
  #isStopped = false

  constructor(options: VirtualServerOptions, parts: VirtualServerParts) {
    const { chunkTokens, shardBytes, ranks } = parts.engine.l1.spaces.spec(parts.space)
    assert(chunkTokens === options.blockTokens, 'blocks of the trace are not the chunks of the engine')
    assert(ranks === 1, 'the virtual server has one rank')
    this.#options = options
    this.#parts = parts
    const scratchBytes = parts.arena === null ? 0 : shardBytes
    this.#scratch = new Uint8Array(scratchBytes)
    this.#fetched = new Uint8Array(scratchBytes)
    this.#startMs = parts.pace.clock.nowMs()
  }

  /** No further request begins. Those under way end. */
  stop(): void {
    this.#isStopped = true
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  /** Runs the requests of a batch. The batch is free again when the promise settles. */
  async run(batch: TraceBatch): Promise<void> {
    const { pace } = this.#parts
    for (let index = 0; index < batch.count && !this.#isStopped; index += 1) {
      if (this.#firstMs < 0) this.#firstMs = batch.timestampMs[index]!
      // A time that goes backwards counts as now.
      const arrival = pace.until(this.#startMs + (batch.timestampMs[index]! - this.#firstMs) / pace.speed)
      if (arrival !== undefined) await arrival
      if (this.#active >= FLIGHTS_MAX) await pace.when(() => this.#active < FLIGHTS_MAX)
      this.#begin(batch, index)
      if (pace.isSequential && !this.#isSettled()) await pace.when(() => this.#isSettled())
      if (this.counts.requests % BREATHE_REQUESTS === 0) await this.#breathe()
    }
  }

  /** Waits until every request has ended and L2 has what was sent to it. */
  async finish(): Promise<ReplayCounts> {
    const { pace, onProgress } = this.#parts
    await pace.when(() => this.#isSettled())
    this.counts.traceSeconds = ((pace.clock.nowMs() - this.#startMs) * pace.speed) / 1000
    onProgress?.(this.counts)
    return this.counts
  }

  /** Nothing under way, and no store that waits: in sequential runs storage keeps up with the trace. */
  #isSettled(): boolean {
    const { stores } = this.#parts.engine
    return this.#active === 0 && stores.inflightBatches === 0 && stores.queuedShards === 0
  }

  async #breathe(): Promise<void> {
    this.#parts.onProgress?.(this.counts)
    await this.#parts.pace.breathe()
  }

  #begin(batch: TraceBatch, index: number): void {
    const { engine, space } = this.#parts
    const flight = this.#free.pop() ?? newFlight()
    traceKeys(batch.ids, batch.firstId[index]!, batch.firstId[index + 1]!, flight.chain)
    flight.promptTokens = batch.inputTokens[index]!
    flight.outputTokens = batch.outputTokens[index]!
    this.#active += 1
    this.counts.requests += 1
    this.counts.blockRefs += flight.chain.count
    this.counts.promptTokens += flight.promptTokens
    const owner = engine.sessions.nextOwner()
    // `onFinal` may run inside the call, before `lookup` has a value here.
    engine.lookup(space, flight.chain, owner, (lookup) => this.#onFinal(flight, lookup), this.#options.tiers)
  }

  #onFinal(flight: Flight, lookup: Lookup): void {
    flight.lookup = lookup
    this.counts.hitL0 += lookup.hitL0
    this.counts.hitL1 += lookup.hitL1
    this.counts.hitL2 += lookup.hitL2
    const servedChunks = this.#fetch(flight, lookup)
    const { blockTokens, prefillTokensPerSecond } = this.#options
    const savedTokens = Math.min(servedChunks * blockTokens, flight.promptTokens)
    this.counts.savedTokens += savedTokens
    const prefillSeconds = (flight.promptTokens - savedTokens) / prefillTokensPerSecond
    this.#after(prefillSeconds, () => this.#store(flight))
  }

  /** Runs the next step after so many seconds of the trace; at once in a sequential run. */
  #after(seconds: number, step: () => void): void {
    const { pace } = this.#parts
    if (pace.isSequential || seconds === 0) step()
    else pace.clock.schedule((seconds * 1000) / pace.speed, step)
  }

  /** Takes the promised chunks. @returns how many were really served. */
  #fetch(flight: Flight, lookup: Lookup): number {
    const hits = lookup.hitChunks
    if (hits === 0) return 0
    const { engine, arena } = this.#parts
    this.#slots.clear()
    if (!engine.slots(lookup, 0, 0, hits, this.#slots)) {
      this.counts.expiredChunks += hits
      return 0
    }
    if (arena !== null) this.#copyOut(flight, arena)
    engine.served(lookup, 0, hits)
    return hits
  }

  #copyOut(flight: Flight, arena: Uint8Array): void {
    const { chainIndex, offset, length, count } = this.#slots
    const { verifyEvery } = this.#options
    for (let row = 0; row < count; row += 1) {
      const bytes = this.#fetched.subarray(0, length[row]!)
      bytes.set(arena.subarray(offset[row]!, offset[row]! + length[row]!))
      this.counts.fetchedBytes += bytes.length
      this.#fetchedChunks += 1
      if (verifyEvery === 0 || this.#fetchedChunks % verifyEvery !== 0) continue
      this.counts.verifiedChunks += 1
      if (!matchesPattern(bytes, flight.chain, chainIndex[row]!, this.#scratch)) this.counts.corruptChunks += 1
    }
  }

  /** The prefill is done: stores what was computed, and lets the hit prefix go. */
  #store(flight: Flight): void {
    const { engine, space, arena } = this.#parts
    const { chain, grants } = flight
    const lookup = flight.lookup!
    const wanted = chain.count - lookup.loadedTo
    grants.clear()
    const lease =
      wanted === 0 ? NO_LEASE : engine.reserve(space, 0, chain, lookup.loadedTo, chain.count, lookup.owner, grants)
    let stored = 0
    if (lease !== NO_LEASE) {
      if (arena !== null) this.#copyIn(flight, arena)
      stored = Math.max(0, engine.commit(space, 0, lease))
    }
    this.counts.storedChunks += stored
    this.counts.unstoredChunks += wanted - stored
    engine.release(lookup)
    const { decodeTokensPerSecond } = this.#options
    this.#after(decodeTokensPerSecond === 0 ? 0 : flight.outputTokens / decodeTokensPerSecond, () => this.#end(flight))
  }

  #copyIn(flight: Flight, arena: Uint8Array): void {
    const { chainIndex, offset, length, count } = flight.grants
    for (let row = 0; row < count; row += 1) {
      fillPattern(arena.subarray(offset[row]!, offset[row]! + length[row]!), flight.chain, chainIndex[row]!)
      this.counts.writtenBytes += length[row]!
    }
  }

  #end(flight: Flight): void {
    flight.lookup = null
    this.#active -= 1
    this.#free.push(flight)
  }
}

function newFlight(): Flight {
  return { chain: new HashChain(64), grants: new SlotList(), lookup: null, promptTokens: 0, outputTokens: 0 }
}
