import type { KeyBatch, L2Adapter } from '../../src/l2/adapter.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'

/** A memory adapter whose lookups, loads and stores wait at a gate, so that tests decide when they end. */
export class GatedAdapter implements L2Adapter {
  readonly type = 'gated'
  readonly inner = new MemoryAdapter({ type: 'memory', capacityBytes: 0, keepBytes: true })
  /** Calls seen, in order: `lookup 3`, `load 2`, `store 1`. */
  readonly calls: string[] = []
  /** Signals of the calls that have not ended. */
  readonly waiting: { readonly kind: string; readonly signal: AbortSignal; readonly open: () => void }[] = []
  /** Kinds that wait. */
  readonly gated: Set<'lookup' | 'load' | 'store'>

  constructor(...gated: ('lookup' | 'load' | 'store')[]) {
    this.gated = new Set(gated)
  }

  open(): Promise<void> {
    return this.inner.open()
  }

  async lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    await this.#pass('lookup', batch, signal)
    await this.inner.lookup(batch, found, signal)
  }

  async store(batch: KeyBatch, sources: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal) {
    await this.#pass('store', batch, signal)
    return this.inner.store(batch, sources, outcomes, signal)
  }

  async load(batch: KeyBatch, targets: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal) {
    await this.#pass('load', batch, signal)
    return this.inner.load(batch, targets, outcomes, signal)
  }

  remove(batch: KeyBatch, signal: AbortSignal): Promise<number> {
    return this.inner.remove(batch, signal)
  }

  clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number> {
    return this.inner.clear(filter, signal)
  }

  list(cursor: string, countMax: number, signal: AbortSignal) {
    return this.inner.list(cursor, countMax, signal)
  }

  usage() {
    return this.inner.usage()
  }

  close(): Promise<void> {
    return this.inner.close()
  }

  /** Lets every call that waits now go on. */
  openGate(): void {
    for (const { open } of this.waiting.splice(0)) open()
  }

  async #pass(kind: 'lookup' | 'load' | 'store', batch: KeyBatch, signal: AbortSignal): Promise<void> {
    this.calls.push(`${kind} ${batch.count}`)
    if (!this.gated.has(kind)) return
    await new Promise<void>((open) => this.waiting.push({ kind, signal, open }))
  }
}
