import type { CounterTable } from '../core/counters.ts'
import type { HashChain } from '../core/hash-chain.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../core/ids.ts'
import type { ENGINE_FIELDS } from '../events/counters.ts'
import { NO_SPAN, type Span, type Tracer } from '../events/tracer.ts'
import { ChunkRefs } from '../l1/chunk-refs.ts'
import type { SpaceSpec } from '../l1/key-spaces.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import { SlotList } from '../l1/slot-list.ts'
import { OUTCOME_OK } from '../l2/adapter.ts'
import type { AdapterSet, Attached } from '../l2/adapter-set.ts'
import { keyBatchOf } from './key-batches.ts'
import type { LoadGate } from './load-gate.ts'
import type { TransferOptions } from './options.ts'

/** One caller's interest in the chunks [from, to) of a chain. The chain stays as it is until `onDone`. */
export interface PrefetchRequest {
  readonly space: SpaceId
  readonly chain: HashChain
  readonly from: number
  readonly to: number
  readonly owner: number
  /** What the load is a part of; absent = nothing that is recorded. */
  readonly span?: Span
  /** Told once, in the turn in which the last loaded chunk became readable in L1, so that it can be leased at once. */
  readonly onDone: () => void
}

/** A caller's place in a load. */
export interface PrefetchTicket {
  /** The caller goes away: `onDone` is not called any more. The load ends when its last caller leaves. */
  leave(): void
}

/** What prefetching works with. */
export interface PrefetcherParts {
  readonly options: TransferOptions
  readonly l1: L1Cache
  readonly adapters: AdapterSet
  readonly gate: LoadGate
  /** Told what an adapter brought: it has these. */
  readonly onLoaded: (adapter: Attached, committed: ChunkRefs) => void
  readonly totals: CounterTable<(typeof ENGINE_FIELDS)[number]>
  /** Views of the arena bytes of a slot; empty views when no bytes are kept. */
  readonly view: (offset: number, lengthBytes: number) => Uint8Array
  readonly onError: (error: unknown) => void
  /** Absent = nothing is traced. */
  readonly tracer?: Tracer
}

/** The part of a job that is one batch: neighbouring chunks of one rank from one adapter, and their slots. */
interface Part {
  readonly adapter: Attached
  readonly rank: number
  readonly lease: LeaseId
  readonly grants: SlotList
}

/** How a part ended. `quiesced` settles when the adapter touches the slots no more; undefined when it is so already. */
interface PartResult {
  readonly part: Part
  readonly outcomes: Uint8Array
  readonly quiesced: Promise<void> | undefined
}

const NOBODY = -1

/**
 * One load from L2 into L1: which adapters hold the leading run of [from, to), slots for it, the bytes, the commit.
 * Runs once. What arrives past a gap is dropped at the commit: a chunk is readable only behind its parent.
 */
export class LoadJob {
  /** Keys under which the prefetcher finds this job. */
  readonly keys = new Set<string>()
  readonly places = new Set<PrefetchTicket>()
  readonly #parts: PrefetcherParts
  readonly #request: PrefetchRequest
  readonly #spec: SpaceSpec
  readonly #abort = new AbortController()
  readonly #span: Span

  constructor(parts: PrefetcherParts, request: PrefetchRequest) {
    this.#parts = parts
    this.#request = request
    this.#spec = parts.l1.spaces.spec(request.space)
    this.#span = request.span ?? NO_SPAN
  }

  get isCancelled(): boolean {
    return this.#abort.signal.aborted
  }

  cancel(): void {
    this.#abort.abort()
  }

  leave(place: PrefetchTicket): void {
    this.places.delete(place)
    if (this.places.size === 0) this.cancel()
  }

  /** Never rejects for an operating error: whatever happens, the caller looks at L1 again. */
  async run(): Promise<void> {
    const { gate } = this.#parts
    const held = await this.#ask()
    if (this.isCancelled) return
    const holders = gate.worthwhile(held, this.#spec)
    if (holders.length === 0) return
    const leave = await gate.enter(holders, this.#spec, this.#abort.signal)
    if (leave === undefined) return
    try {
      await this.#load(holders)
    } finally {
      leave()
    }
  }

  /** The adapter that holds chunk from + i, for the leading run that is held whole (all ranks). */
  async #ask(): Promise<Attached[]> {
    const { from, to } = this.#request
    const holders = new Array<Attached | undefined>(to - from).fill(undefined)
    for (const adapter of this.#parts.adapters.loadable()) {
      const wanted = holders.flatMap((holder, at) => (holder === undefined ? [from + at] : []))
      if (wanted.length === 0 || this.isCancelled) break
      const isPeer = adapter.adapter.isPeer === true
      if (isPeer) this.#parts.totals.add(0, 'activePeerLookupJobs', 1)
      const held = await this.#askOne(adapter, wanted)
      if (isPeer) this.#parts.totals.add(0, 'activePeerLookupJobs', -1)
      wanted.forEach((index, at) => {
        if (held[at] === 1) holders[index - from] = adapter
      })
    }
    const gap = holders.indexOf(undefined)
    const run = (gap === NOBODY ? holders : holders.slice(0, gap)) as Attached[]
    this.#countHits(run)
    return run
  }

  async #askOne(adapter: Attached, wanted: number[]): Promise<Uint8Array> {
    const { chain } = this.#request
    const all = new Uint8Array(wanted.length).fill(1)
    for (let rank = 0; rank < this.#spec.ranks; rank += 1) {
      const batch = keyBatchOf(this.#spec, rank, chain, wanted)
      const { signal } = this.#abort
      const found = await this.#parts.adapters.submitLookup(adapter, this.#spec.tenant, batch, signal, this.#span)
      for (let at = 0; at < all.length; at += 1) all[at]! &= found[at]!
    }
    return all
  }

  #countHits(run: Attached[]): void {
    const shards = new Map<Attached, number>()
    for (const adapter of run) shards.set(adapter, (shards.get(adapter) ?? 0) + this.#spec.ranks)
    for (const [adapter, count] of shards) this.#parts.adapters.countHits(adapter, this.#spec.tenant, count)
  }

  async #load(holders: readonly Attached[]): Promise<void> {
    const parts: Part[] = []
    for (let rank = 0; rank < this.#spec.ranks; rank += 1) this.#reserve(rank, holders, parts)
    const results = await Promise.all(parts.map((part) => this.#loadPart(part)))
    for (const result of results) this.#settle(result) // in chain order: parents first
  }

  /** Reserves slots group by group; where room ends, the rest of this rank counts as `l1_oom`. */
  #reserve(rank: number, holders: readonly Attached[], into: Part[]): void {
    const { l1, adapters, options } = this.#parts
    const { space, chain, from, owner } = this.#request
    for (const [start, end] of neighbours(holders, options.batchShards)) {
      const adapter = holders[start]!
      const grants = new SlotList()
      const absent = this.#absentShards(rank, from + start, from + end)
      const lease = l1.reserve(
        space,
        rank,
        chain,
        from + start,
        from + end,
        owner,
        Number.POSITIVE_INFINITY,
        'load',
        grants,
      )
      if (lease !== NO_LEASE) into.push({ adapter, rank, lease, grants })
      if (grants.count < absent) {
        adapters.countL1Oom(adapter, this.#spec.tenant, absent - grants.count)
        this.#countOomAfter(rank, end, holders)
        return
      }
    }
  }

  #countOomAfter(rank: number, end: number, holders: readonly Attached[]): void {
    const { from } = this.#request
    for (let at = end; at < holders.length; at += 1) {
      const absent = this.#absentShards(rank, from + at, from + at + 1)
      if (absent > 0) this.#parts.adapters.countL1Oom(holders[at]!, this.#spec.tenant, absent)
    }
  }

  /** Chunks of [from, to) of which this rank's shard is neither readable nor being written. */
  #absentShards(rank: number, from: number, to: number): number {
    return this.#parts.l1.queries.absent(this.#request.space, rank, this.#request.chain, from, to)
  }

  async #loadPart(part: Part): Promise<PartResult> {
    const { adapter, rank, grants } = part
    const indices = Array.from(grants.chainIndex.subarray(0, grants.count))
    const batch = keyBatchOf(this.#spec, rank, this.#request.chain, indices)
    const targets = indices.map((_, grant) => this.#parts.view(grants.offset[grant]!, grants.length[grant]!))
    const { adapters } = this.#parts
    const { signal } = this.#abort
    const result = await adapters.submitLoad(adapter, this.#spec.tenant, batch, targets, signal, this.#span)
    const { gate } = this.#parts
    if (result.bytes > 0) gate.note(adapter, result.bytes, result.busySeconds)
    else if (this.isCancelled) gate.noteAtLeast(adapter, batch.count * this.#spec.shardBytes, result.busySeconds)
    return { part, outcomes: result.outcomes, quiesced: result.quiesced }
  }

  /**
   * Commits what arrived. An adapter that was given up may still write: its slots are quarantined until it is done.
   * A lease that expired meanwhile was quarantined by the sweep, and is fenced here.
   */
  #settle({ part: { adapter, lease }, outcomes, quiesced }: PartResult): void {
    const { l1, onError, onLoaded } = this.#parts
    if (quiesced !== undefined) {
      l1.quarantine(lease)
      quiesced.then(() => l1.fence(lease)).catch(onError)
      return
    }
    const committed = new ChunkRefs()
    const isKnown = outcomes.includes(OUTCOME_OK) ? l1.commit(lease, outcomes, committed) >= 0 : l1.abort(lease)
    if (committed.count > 0) onLoaded(adapter, committed)
    if (!isKnown) l1.fence(lease)
  }
}

/** Cuts holders into runs [start, end) of one adapter and at most `size` chunks. */
function neighbours(holders: readonly Attached[], size: number): [number, number][] {
  const runs: [number, number][] = []
  let start = 0
  for (let at = 1; at <= holders.length; at += 1) {
    const isCut = at === holders.length || holders[at] !== holders[start] || at - start === size
    if (!isCut) continue
    runs.push([start, at])
    start = at
  }
  return runs
}
