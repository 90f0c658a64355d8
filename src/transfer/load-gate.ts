import type { Clock } from '../core/clock.ts'
import type { SpaceSpec } from '../l1/key-spaces.ts'
import type { AdapterSet, Attached } from '../l2/adapter-set.ts'
import { InflightBudget } from './inflight-budget.ts'
import { LoadEstimate } from './load-estimate.ts'
import type { TransferOptions } from './options.ts'

/** While loads of an adapter are skipped because they are slow, one is let through this often, to look again. */
const PROBE_MS = 10_000

export interface LoadGateParts {
  readonly options: TransferOptions
  readonly clock: Clock
  readonly adapters: AdapterSet
}

/** What the gate knows of one adapter. */
interface Lane {
  readonly budget: InflightBudget
  readonly estimate: LoadEstimate
  probedMs: number
}

/**
 * Decides which of the chunks that L2 holds are loaded, and when: under the byte budgets of each adapter and of all,
 * and only where loading is estimated to be faster than computing, when that is asked for.
 *
 *   run of holders --worthwhile--> its leading part --enter--> budgets of its adapters, then that of all --> leave
 *
 * Chunks behind a skipped one are of no use, so a run is cut, never holed. Budgets are taken in the order of the
 * adapters' rows and that of all last: two loads never wait for each other.
 */
export class LoadGate {
  readonly #parts: LoadGateParts
  /** L1 bytes reserved by loads in flight, over all adapters. */
  readonly #budget: InflightBudget
  readonly #lanes = new Map<Attached, Lane>()

  constructor(parts: LoadGateParts) {
    this.#parts = parts
    this.#budget = new InflightBudget(parts.options.loadBudgetBytes)
  }

  /** Bytes of loads that wait for a budget of this adapter. */
  pendingBytes(adapter: Attached): number {
    return this.#lanes.get(adapter)?.budget.pendingBytes ?? 0
  }

  /** A load batch ended well after so many seconds. */
  note(adapter: Attached, bytes: number, seconds: number): void {
    this.#lane(adapter).estimate.note(bytes, seconds)
  }

  /** A load batch was given up after so many seconds: it would have taken longer. */
  noteAtLeast(adapter: Attached, bytes: number, seconds: number): void {
    const { estimate } = this.#lane(adapter)
    if (seconds > (estimate.secondsOf(bytes) ?? 0)) estimate.note(bytes, seconds)
  }

  /** Seconds that a load of so many bytes would take now, what is before it included; undefined when not known. */
  secondsOf(adapter: Attached, bytes: number): number | undefined {
    const { budget, estimate } = this.#lane(adapter)
    return estimate.secondsOf(bytes + budget.inflightBytes + budget.pendingBytes)
  }

  /**
   * The leading part of a run of holders that is worth loading. What is cut off is counted with its reason.
   * @param run the adapter that holds chunk i.
   */
  worthwhile(run: readonly Attached[], spec: SpaceSpec): readonly Attached[] {
    let kept = this.#cut(run, spec, 'slower', (adapter, chunks) => this.#isSlower(adapter, chunks, spec))
    kept = this.#cut(kept, spec, 'queue_full', (adapter, chunks) => {
      const { budget } = this.#lane(adapter)
      return !budget.mayWait(chunks * spec.ranks * spec.shardBytes)
    })
    return kept
  }

  /** Takes the budgets for a run, waiting for them. Undefined, with nothing taken, when `signal` aborts first. */
  async enter(run: readonly Attached[], spec: SpaceSpec, signal: AbortSignal): Promise<(() => void) | undefined> {
    const chunkBytes = spec.ranks * spec.shardBytes
    const wanted = [...chunksOf(run)].sort(([one], [other]) => one.row - other.row)
    const taken: (() => void)[] = []
    const leave = () => {
      for (const release of taken) release()
    }
    const budgets: [InflightBudget, number][] = wanted.map(([adapter, chunks]) => {
      return [this.#lane(adapter).budget, chunks * chunkBytes]
    })
    budgets.push([this.#budget, run.length * chunkBytes])
    for (const [budget, bytes] of budgets) {
      if (!(await budget.acquire(bytes, signal))) {
        leave()
        return undefined
      }
      taken.push(() => budget.release(bytes))
    }
    return leave
  }

  /** Cuts a run before the first chunk of an adapter that is refused, until none is. */
  #cut(
    run: readonly Attached[],
    spec: SpaceSpec,
    reason: 'slower' | 'queue_full',
    isRefused: (adapter: Attached, chunks: number) => boolean,
  ): readonly Attached[] {
    let kept = run
    for (;;) {
      const counts = chunksOf(kept)
      const refused = new Set([...counts].filter(([adapter, chunks]) => isRefused(adapter, chunks)).map(([one]) => one))
      if (refused.size === 0) break
      kept = kept.slice(
        0,
        kept.findIndex((adapter) => refused.has(adapter)),
      )
    }
    for (const [adapter, chunks] of chunksOf(run.slice(kept.length))) {
      this.#parts.adapters.countLoadSkipped(adapter, spec.tenant, chunks * spec.ranks, reason)
    }
    return kept
  }

  #isSlower(adapter: Attached, chunks: number, spec: SpaceSpec): boolean {
    const { options, clock } = this.#parts
    if (options.skipSlowerTokensPerSecond === 0) return false
    const seconds = this.secondsOf(adapter, chunks * spec.ranks * spec.shardBytes)
    if (seconds === undefined || seconds <= (chunks * spec.chunkTokens) / options.skipSlowerTokensPerSecond)
      return false
    const lane = this.#lane(adapter)
    const nowMs = clock.nowMs()
    if (nowMs - lane.probedMs < PROBE_MS) return true
    lane.probedMs = nowMs
    return false
  }

  #lane(adapter: Attached): Lane {
    let lane = this.#lanes.get(adapter)
    if (lane === undefined) {
      this.#forgetGone()
      const { loadBudgetBytes, loadPendingBytes } = this.#parts.options
      const { limits } = adapter
      const budget = new InflightBudget(
        limits.loadBudgetBytes === 0 ? loadBudgetBytes : limits.loadBudgetBytes,
        limits.loadPendingBytes === 0 ? loadPendingBytes : limits.loadPendingBytes,
      )
      lane = { budget, estimate: new LoadEstimate(), probedMs: this.#parts.clock.nowMs() }
      this.#lanes.set(adapter, lane)
    }
    return lane
  }

  #forgetGone(): void {
    for (const [adapter, { budget }] of this.#lanes) {
      if (adapter.isGone && budget.inflightBytes === 0 && budget.waiting === 0) this.#lanes.delete(adapter)
    }
  }
}

/** How many chunks of a run each adapter holds. */
function chunksOf(run: readonly Attached[]): Map<Attached, number> {
  const counts = new Map<Attached, number>()
  for (const adapter of run) counts.set(adapter, (counts.get(adapter) ?? 0) + 1)
  return counts
}
