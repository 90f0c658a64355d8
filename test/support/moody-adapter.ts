import { CacheError } from '../../src/core/errors.ts'
import type { AdapterUsage, KeyBatch, L2Adapter, ObjectPage } from '../../src/l2/adapter.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'
import { MEMORY_DEFAULT } from '../../src/l2/options.ts'

/** How an operation goes. `hang` ends with its abort, `stuck` only with `release`. */
export type Mood = 'fine' | 'reject' | 'hang' | 'stuck'

/** An adapter over memory whose every operation, opening and closing included, goes as it is told. */
export class MoodyAdapter implements L2Adapter {
  readonly type = 'moody'
  readonly inner = new MemoryAdapter(MEMORY_DEFAULT)
  readonly #mood: (operation: string) => Mood
  readonly #stuck = new Set<() => void>()

  /** @param mood asked once for each operation. */
  constructor(mood: (operation: string) => Mood) {
    this.#mood = mood
  }

  async open(): Promise<void> {
    await this.#meet('open')
    await this.inner.open()
  }

  async lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    await this.#meet('lookup', signal)
    await this.inner.lookup(batch, found, NEVER)
  }

  async store(batch: KeyBatch, sources: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal) {
    await this.#meet('store', signal)
    return this.inner.store(batch, sources, outcomes, NEVER)
  }

  async load(batch: KeyBatch, targets: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal) {
    await this.#meet('load', signal)
    return this.inner.load(batch, targets, outcomes, NEVER)
  }

  async remove(batch: KeyBatch, signal: AbortSignal): Promise<number> {
    await this.#meet('remove', signal)
    return this.inner.remove(batch, NEVER)
  }

  async clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number> {
    await this.#meet('clear', signal)
    return this.inner.clear(filter, NEVER)
  }

  async list(cursor: string, countMax: number, signal: AbortSignal): Promise<ObjectPage> {
    await this.#meet('list', signal)
    return this.inner.list(cursor, countMax, NEVER)
  }

  async scrub(batch: KeyBatch, outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    await this.#meet('scrub', signal)
    return this.inner.scrub(batch, outcomes, NEVER)
  }

  usage(): AdapterUsage {
    return this.inner.usage()
  }

  async close(): Promise<void> {
    await this.#meet('close')
    await this.inner.close()
  }

  /** Lets go of everything that is stuck. */
  release(): void {
    for (const resolve of this.#stuck) resolve()
    this.#stuck.clear()
  }

  async #meet(operation: string, signal?: AbortSignal): Promise<void> {
    const mood = this.#mood(operation)
    if (mood === 'fine') return
    if (mood === 'reject') throw new CacheError('L2_UNAVAILABLE', `${operation} refused on purpose`)
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#stuck.add(resolve)
    if (mood === 'hang' && signal !== undefined) {
      signal.addEventListener('abort', () => resolve(), { once: true })
      if (signal.aborted) resolve()
    }
    await promise
    this.#stuck.delete(resolve)
    if (signal?.aborted) throw new CacheError('L2_TIMEOUT', `${operation} given up`)
  }
}

const NEVER = new AbortController().signal
