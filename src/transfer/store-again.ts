import type { SpaceId } from '../core/ids.ts'
import { ChunkRefs } from '../l1/chunk-refs.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import type { AdapterSet } from '../l2/adapter-set.ts'
import { keyBatchOfRefs } from './key-batches.ts'
import type { StoreLane } from './store-lane.ts'

/** Shards that are looked at between two questions at most. */
const RECORDS = 4_096
/** Shards of one question at most. */
const QUESTION_SHARDS = 256
/** After an adapter could not say. */
const PAUSE_MS = 1_000
/** From a store that failed to the pass that makes up for it; twice as long after each pass with failures. */
const MISSED_MIN_MS = 10_000
const MISSED_MAX_MS = 600_000

export interface StoreAgainParts {
  readonly l1: L1Cache
  readonly adapters: AdapterSet
  /** There is something to do for the store loop. */
  readonly wake: () => void
  readonly onError: (error: unknown) => void
}

/** How far an adapter was offered what is in L1. */
interface Pass {
  /** Shard number to go on from. */
  from: number
  /** Of one space and rank each: what was listed, and is still to be asked for. */
  readonly questions: Question[]
  isAsking: boolean
  notBeforeMs: number
}

interface Question {
  readonly space: SpaceId
  readonly rank: number
  readonly refs: ChunkRefs
}

/**
 * Offers all that is in L1 to an adapter that may lack some of it: an engine that was killed left stores behind, the
 * adapter was away when they were made, or they failed.
 *
 *   every shard in L1, once -> 256 of one space and rank -> lookup --absent--> queue, as if just committed
 *                                                              '--there-----> nothing
 *
 * One question at a time, and only while nothing waits for the adapter: what clients store now goes first, and what is
 * queued here is never more than one question. No cell counts the questions. Adapters that choose what they are given
 * (write-back, admission) are left out: they choose among what is in L1 at all times.
 */
export class StoreAgain {
  readonly #parts: StoreAgainParts
  readonly #passes = new Map<StoreLane, Pass>()
  /** Lanes that lost stores: when the next pass begins, Infinity while it runs. */
  readonly #missed = new Map<StoreLane, { dueMs: number; delayMs: number }>()
  readonly #abort = new AbortController()

  constructor(parts: StoreAgainParts) {
    this.#parts = parts
  }

  /** Begins a pass over L1, or begins it anew. */
  begin(lane: StoreLane): void {
    if (!isOffered(lane)) return
    this.#passes.set(lane, { from: 0, questions: [], isAsking: false, notBeforeMs: Number.NEGATIVE_INFINITY })
    this.#parts.wake()
  }

  /** Some of what was handed over did not arrive: it is offered again after a while, once the adapter serves. */
  noteMissed(lane: StoreLane, nowMs: number): void {
    if (!isOffered(lane) || this.#abort.signal.aborted) return
    const missed = this.#missed.get(lane) ?? { dueMs: Number.POSITIVE_INFINITY, delayMs: MISSED_MIN_MS }
    missed.dueMs = Math.min(missed.dueMs, nowMs + missed.delayMs)
    this.#missed.set(lane, missed)
  }

  forget(lane: StoreLane): void {
    this.#passes.delete(lane)
    this.#missed.delete(lane)
  }

  /** Asks no more. */
  stop(): void {
    this.#abort.abort()
    this.#passes.clear()
    this.#missed.clear()
  }

  /** Goes on where there is room. Run by the store loop. */
  step(nowMs: number): void {
    for (const [lane, missed] of this.#missed) {
      if (nowMs < missed.dueMs || this.#passes.has(lane) || !lane.adapter.isLoadable) continue
      missed.dueMs = Number.POSITIVE_INFINITY
      missed.delayMs = Math.min(MISSED_MAX_MS, 2 * missed.delayMs)
      this.begin(lane)
    }
    for (const [lane, pass] of this.#passes) {
      const isFree = lane.queue.count === 0 && lane.adapter.isStorable && lane.adapter.isLoadable
      if (!isFree || pass.isAsking || nowMs < pass.notBeforeMs) continue
      const question = this.#next(pass)
      if (question !== undefined) void this.#ask(lane, pass, question, nowMs)
      else if (pass.from < 0) this.#end(lane)
    }
  }

  #end(lane: StoreLane): void {
    this.#passes.delete(lane)
    if (this.#missed.get(lane)?.dueMs === Number.POSITIVE_INFINITY) this.#missed.delete(lane)
  }

  /** The next question; undefined when the records looked at had none. */
  #next(pass: Pass): Question | undefined {
    if (pass.questions.length === 0 && pass.from >= 0) {
      const refs = new ChunkRefs()
      const ranks: number[] = []
      const { queries } = this.#parts.l1
      pass.from = queries.readable(pass.from, RECORDS, QUESTION_SHARDS, refs, ranks)
      const groups = new Map<string, Question>()
      for (let at = 0; at < refs.count; at += 1) {
        const [space, rank] = [queries.spaceOf(refs.id[at]!), ranks[at]!]
        const group = groups.get(`${space}:${rank}`) ?? { space, rank, refs: new ChunkRefs() }
        groups.set(`${space}:${rank}`, group)
        group.refs.push(refs.id[at]!, refs.generation[at]!)
      }
      pass.questions.push(...groups.values())
    }
    return pass.questions.shift()
  }

  async #ask(lane: StoreLane, pass: Pass, question: Question, nowMs: number): Promise<void> {
    const { l1, adapters, wake, onError } = this.#parts
    const { adapter } = lane
    const { space, rank } = question
    const refs = this.#stillThere(question)
    const batch = keyBatchOfRefs(l1, l1.spaces.spec(space), rank, refs)
    pass.isAsking = true
    const lookup = async (signal: AbortSignal) => {
      const found = new Uint8Array(batch.count)
      await adapter.adapter.lookup(batch, found, signal)
      return found
    }
    const { signal } = this.#abort
    const ended = await adapters.maintain(adapter, adapter.limits.lookupDeadlineMs, signal, lookup, onError)
    pass.isAsking = false
    if (this.#passes.get(lane) !== pass) return // another pass has begun, or none is wanted any more
    const found = ended?.value
    if (found === undefined) {
      pass.questions.unshift(question)
      pass.notBeforeMs = nowMs + PAUSE_MS
      return
    }
    for (let at = 0; at < refs.count; at += 1) {
      if (found[at] === 0) lane.push(refs.id[at]!, refs.generation[at]!, space, rank)
    }
    wake()
  }

  /** Without what left L1 since it was listed. */
  #stillThere({ refs }: Question): ChunkRefs {
    const left = new ChunkRefs(refs.count)
    for (let at = 0; at < refs.count; at += 1) {
      if (this.#parts.l1.queries.isLive(refs.id[at]!, refs.generation[at]!))
        left.push(refs.id[at]!, refs.generation[at]!)
    }
    return left
  }
}

/** Whether the adapter is to have all that is in L1. */
function isOffered({ marks, adapter }: StoreLane): boolean {
  return marks === undefined && adapter.adapter.isPeer !== true
}
