import { pageMemory } from '../../native/page-memory.ts'
import { HEADER_BYTES } from '../object-format.ts'

/** Scratch memory of one record at a time. */
export interface Lane {
  /** Starts on a page. */
  readonly header: Buffer<ArrayBuffer>
  /** Takes what a record has too much. Starts on a page. */
  readonly spare: Buffer<ArrayBuffer>
}

/** One batch, as far as it has come. */
interface Run<Scratch> {
  readonly work: (key: number, lane: Scratch) => Promise<void>
  readonly done: PromiseWithResolvers<void>
  next: number
  /** Keys that are still to be begun. */
  left: number
  busy: number
  /** The first that a key failed with. */
  failure: { readonly error: unknown } | undefined
}

/**
 * Bounds how many objects an adapter has under way in one direction: each takes a lane, and all batches share the
 * lanes, oldest batch first.
 */
export class Lanes<Scratch = Lane> {
  readonly #free: Scratch[]
  readonly #runs: Run<Scratch>[] = []

  /** @param scratch makes what one object at a time needs to be moved, if that is no lane for records. */
  constructor(lanes: number, scratch: () => Scratch = recordLane as () => Scratch) {
    this.#free = Array.from({ length: lanes }, scratch)
  }

  /**
   * Calls `work` for keys 0..count-1, in order, as lanes get free. None is begun after an abort.
   * Settles when all that were begun have ended, for until then they touch memory of the caller; rejects with the first
   * error of `work`.
   */
  run(count: number, signal: AbortSignal, work: Run<Scratch>['work']): Promise<void> {
    const run: Run<Scratch> = {
      work,
      done: Promise.withResolvers(),
      left: signal.aborted ? 0 : count,
      next: 0,
      busy: 0,
      failure: undefined,
    }
    const onAbort = () => this.#cut(run)
    signal.addEventListener('abort', onAbort, { once: true })
    this.#runs.push(run)
    if (run.left === 0) this.#cut(run)
    this.#fill()
    return run.done.promise.finally(() => signal.removeEventListener('abort', onAbort))
  }

  #fill(): void {
    for (let run = this.#runs[0]; run !== undefined && this.#free.length > 0; run = this.#runs[0]) {
      const key = run.next
      run.next += 1
      run.left -= 1
      run.busy += 1
      if (run.left === 0) this.#runs.shift()
      void this.#work(run, key, this.#free.pop()!)
    }
  }

  async #work(run: Run<Scratch>, key: number, lane: Scratch): Promise<void> {
    try {
      await run.work(key, lane)
    } catch (error) {
      run.failure ??= { error }
      this.#cut(run)
    }
    this.#free.push(lane)
    run.busy -= 1
    this.#settleIfDone(run)
    this.#fill()
  }

  /** Begins no more keys of a batch. */
  #cut(run: Run<Scratch>): void {
    const at = this.#runs.indexOf(run)
    if (at >= 0) this.#runs.splice(at, 1)
    run.left = 0
    this.#settleIfDone(run)
  }

  #settleIfDone({ busy, left, failure, done }: Run<Scratch>): void {
    if (busy > 0 || left > 0) return
    if (failure === undefined) done.resolve()
    else done.reject(failure.error)
  }
}

function recordLane(): Lane {
  return { header: pageMemory(HEADER_BYTES), spare: pageMemory(HEADER_BYTES) }
}
