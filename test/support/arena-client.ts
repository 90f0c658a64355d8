import type { AdapterUsage, KeyBatch, L2Adapter, ObjectPage } from '../../src/l2/adapter.ts'

/** Passes every batch through views of an arena, as the engine does: bytes are copied in before, and out after. */
export class ArenaClient implements L2Adapter {
  readonly type: string
  readonly #inner: L2Adapter
  readonly #arena: Uint8Array
  #next = 0

  constructor(inner: L2Adapter, arena: Uint8Array) {
    this.type = inner.type
    this.#inner = inner
    this.#arena = arena
  }

  open(): Promise<void> {
    return this.#inner.open()
  }

  lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    return this.#inner.lookup(batch, found, signal)
  }

  store(batch: KeyBatch, sources: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    const views = sources.map((source) => this.#take(source.length))
    for (const [key, source] of sources.entries()) views[key]!.set(source)
    return this.#inner.store(batch, views, outcomes, signal)
  }

  async load(batch: KeyBatch, targets: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal) {
    const views = targets.map((target) => this.#take(target.length))
    const bytes = await this.#inner.load(batch, views, outcomes, signal)
    for (const [key, target] of targets.entries()) target.set(views[key]!)
    return bytes
  }

  remove(batch: KeyBatch, signal: AbortSignal): Promise<number> {
    return this.#inner.remove(batch, signal)
  }

  clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number> {
    return this.#inner.clear(filter, signal)
  }

  list(cursor: string, countMax: number, signal: AbortSignal): Promise<ObjectPage> {
    return this.#inner.list!(cursor, countMax, signal)
  }

  scrub(batch: KeyBatch, outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    return this.#inner.scrub!(batch, outcomes, signal)
  }

  usage(): AdapterUsage {
    return this.#inner.usage()
  }

  close(): Promise<void> {
    return this.#inner.close()
  }

  /** The next bytes of the arena, round and round: batches of a test are far smaller than it. */
  #take(bytes: number): Uint8Array {
    if (this.#next + bytes > this.#arena.length) this.#next = 0
    this.#next += bytes
    return this.#arena.subarray(this.#next - bytes, this.#next)
  }
}
