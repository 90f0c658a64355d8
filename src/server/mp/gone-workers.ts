import type { Instance } from './instances.ts'
import type { MpParts, WireSegment } from './parts.ts'

/** Longer than a heartbeat: who was heard of within this time is alive, whatever it has mapped. */
const QUIET_MS = 15_000
/** Nobody may have the segment open for this long: a GPU that copies into a dead process's pages has ended by then. */
const ALONE_MS = 5_000

/**
 * Workers whose processes are proved to be gone: they had mapped the segment, and the kernel says that no other process
 * has it open. What they may have written to or read from is free at once, and nobody waits for an operator.
 *
 *   registered --(another process has the segment open)--> has mapped --(none has, for 5 s; silent for 15 s)--> gone
 *
 * It is a proof for all workers of a segment together: while one lives, or another server has started, the rest stay
 * quarantined. The clients of the wire open the segment for writing, those that only read too; the kernel counts no
 * others.
 */
export class GoneWorkers {
  readonly #parts: MpParts
  /** By part of L1. */
  readonly #aloneSinceMs: Float64Array

  constructor(parts: MpParts) {
    this.#parts = parts
    this.#aloneSinceMs = new Float64Array(parts.segments.length).fill(Number.POSITIVE_INFINITY)
  }

  sweep(): void {
    const { instances, segments, engine } = this.#parts
    const all = instances.list()
    if (all.length === 0) return
    const { parts } = engine.l1.spaces
    for (const [part, segment] of segments.entries()) {
      const own = all.filter(({ model }) => parts.find(model) === part)
      if (own.length > 0) this.#sweepPart(part, segment, own)
    }
  }

  #sweepPart(part: number, segment: WireSegment, workers: readonly Instance[]): void {
    const nowMs = this.#parts.clock.nowMs()
    if (!segment.isOnlyOurs()) {
      this.#aloneSinceMs[part] = Number.POSITIVE_INFINITY
      for (const worker of workers) worker.hasMapped = true
      return
    }
    this.#aloneSinceMs[part] = Math.min(this.#aloneSinceMs[part]!, nowMs)
    if (nowMs - this.#aloneSinceMs[part]! < ALONE_MS) return
    for (const worker of workers) {
      if (worker.hasMapped && nowMs - worker.lastSeenMs >= QUIET_MS) this.#end(worker)
    }
  }

  #end(instance: Instance): void {
    const { engine, instances, log, onGone } = this.#parts
    const { id, model, openTransfers: transfers } = instance
    instance.end(engine.l1)
    engine.observed.instanceGone(id)
    instances.remove(id)
    log.warn({ instance: String(id), model, transfers }, 'the process of a worker is gone: what it held is free')
    if (transfers > 0) onGone?.({ worker: String(id), model, transfers })
  }
}
