import { assert } from '../core/assert.ts'
import { HashChain } from '../core/hash-chain.ts'
import type { SpaceId } from '../core/ids.ts'
import type { Engine, TierChoice } from '../engine/engine.ts'
import type { Lookup } from '../engine/lookup.ts'
import { SlotList } from '../l1/slot-list.ts'
import type { DataPath, Flight } from './data-path.ts'
import type { ReplayCounts } from './replay-counts.ts'
import type { Pace } from './replay-pace.ts'
import { NO_SESSION, type TraceBatch } from './trace-batch.ts'

export interface VirtualServerOptions {
  /** Tokens of one block of the trace; the engine's chunks have the same size. */
  readonly blockTokens: number
  readonly prefillTokensPerSecond: number
  /** 0: output takes no time. */
  readonly decodeTokensPerSecond: number
  readonly tiers: TierChoice
}

export interface VirtualServerParts {
  readonly engine: Engine
  readonly space: SpaceId
  readonly pace: Pace
  readonly path: DataPath
  readonly counts: ReplayCounts
  /** Told now and then. */
  readonly onProgress?: () => void
}

/** Requests under way at once; later ones wait. */
const FLIGHTS_MAX = 4096
/** Requests of a sequential run after which other work of the thread has its turn. */
const BREATHE_REQUESTS = 256

/**
 * An inference server that computes nothing: it asks the engine for each request of a trace, fetches what is
 * promised, lets the time of the prefill pass, and stores the chunks it would have computed.
 *
 *   arrival -> lookup -> [L2 answers] -> fetch -> [prefill] -> store -> release -> [decode] -> end
 *
 * Sequential: a request is over before the next arrives, and prefill and decode take no time.
 * Otherwise requests overlap as their times have it, each with a GPU of its own.
 */
export class VirtualServer {
  readonly #options: VirtualServerOptions
  readonly #parts: VirtualServerParts
  readonly #free: Flight[] = []
  readonly #startMs: number
  #firstMs = -1
  #active = 0
  #isStopped = false

  constructor(options: VirtualServerOptions, parts: VirtualServerParts) {
    const { chunkTokens, ranks } = parts.engine.l1.spaces.spec(parts.space)
    assert(chunkTokens === options.blockTokens, 'blocks of the trace are not the chunks of the engine')
    assert(ranks === 1, 'the virtual server has one rank')
    this.#options = options
    this.#parts = parts
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
    const { pace, counts, onProgress } = this.#parts
    for (let index = 0; index < batch.count && !this.#isStopped; index += 1) {
      if (this.#firstMs < 0) this.#firstMs = batch.timestampMs[index]!
      // A time that goes backwards counts as now.
      const arrival = pace.until(this.#startMs + (batch.timestampMs[index]! - this.#firstMs) / pace.speed)
      if (arrival !== undefined) await arrival
      if (this.#active >= FLIGHTS_MAX) await pace.when(() => this.#active < FLIGHTS_MAX)
      this.#begin(batch, index)
      if (pace.isSequential && !this.#isSettled()) await pace.when(() => this.#isSettled())
      if (pace.isSequential && counts.requests % BREATHE_REQUESTS !== 0) continue
      onProgress?.()
      if (pace.isSequential) await pace.breathe()
    }
  }

  /** Waits until every request has ended and L2 has what was sent to it. */
  async finish(): Promise<void> {
    const { pace, counts, onProgress } = this.#parts
    await pace.when(() => this.#isSettled())
    counts.traceSeconds = ((pace.clock.nowMs() - this.#startMs) * pace.speed) / 1000
    onProgress?.()
  }

  /** Nothing under way, and no store that waits: in sequential runs storage keeps up with the trace. */
  #isSettled(): boolean {
    const { stores } = this.#parts.engine
    return this.#active === 0 && stores.inflightBatches === 0 && stores.queuedShards === 0
  }

  #begin(batch: TraceBatch, index: number): void {
    const { engine, space, counts } = this.#parts
    const flight = this.#free.pop() ?? newFlight()
    batch.keysOf(index, flight.chain)
    flight.promptTokens = batch.inputTokens[index]!
    flight.outputTokens = batch.outputTokens[index]!
    flight.endsSession = batch.endsSession[index] === 1
    this.#countSession(batch.session[index]!)
    this.#active += 1
    counts.requests += 1
    counts.blockRefs += flight.chain.count
    counts.promptTokens += flight.promptTokens
    const owner = engine.sessions.nextOwner()
    // The answer may come before the call returns.
    engine.lookup(space, flight.chain, owner, (lookup) => this.#onFinal(flight, lookup), this.#options.tiers)
  }

  /** Sessions are numbered in order of their first requests. */
  #countSession(session: number): void {
    const { counts } = this.#parts
    if (session === NO_SESSION || session < counts.sessions) return
    counts.sessions = session + 1
    counts.openSessionsMax = Math.max(counts.openSessionsMax, counts.sessions - counts.endedSessions)
  }

  #onFinal(flight: Flight, lookup: Lookup): void {
    const { counts, path } = this.#parts
    flight.lookup = lookup
    counts.hitL0 += lookup.hitL0
    counts.hitL1 += lookup.hitL1
    counts.hitL2 += lookup.hitL2
    path.fetch(flight, (chunks) => this.#prefill(flight, chunks))
  }

  /** Computes what was not served. */
  #prefill(flight: Flight, servedChunks: number): void {
    const { blockTokens, prefillTokensPerSecond } = this.#options
    const savedTokens = Math.min(servedChunks * blockTokens, flight.promptTokens)
    this.#parts.counts.savedTokens += savedTokens
    this.#after((flight.promptTokens - savedTokens) / prefillTokensPerSecond, () => this.#store(flight))
  }

  #store(flight: Flight): void {
    const lookup = flight.lookup!
    const wanted = flight.chain.count - lookup.loadedTo
    if (wanted === 0) this.#decode(flight)
    else {
      this.#parts.path.store(flight, (stored) => {
        this.#parts.counts.storedChunks += stored
        this.#parts.counts.unstoredChunks += wanted - stored
        this.#decode(flight)
      })
    }
  }

  /** Lets the hit prefix go, and puts out tokens. */
  #decode(flight: Flight): void {
    const { decodeTokensPerSecond } = this.#options
    this.#parts.engine.release(flight.lookup!)
    this.#after(decodeTokensPerSecond === 0 ? 0 : flight.outputTokens / decodeTokensPerSecond, () => this.#end(flight))
  }

  /** Runs the next step after so many seconds of the trace; at once in a sequential run. */
  #after(seconds: number, step: () => void): void {
    const { pace } = this.#parts
    if (pace.isSequential || seconds === 0) step()
    else pace.clock.schedule((seconds * 1000) / pace.speed, step)
  }

  #end(flight: Flight): void {
    this.#parts.path.end(flight)
    flight.lookup = null
    if (flight.endsSession) this.#parts.counts.endedSessions += 1
    this.#active -= 1
    this.#free.push(flight)
  }
}

function newFlight(): Flight {
  const grants = new SlotList()
  const tokens = { promptTokens: 0, outputTokens: 0 }
  return { chain: new HashChain(64), grants, lookup: null, device: null, ...tokens, endsSession: false }
}
