import type { MpParts } from './parts.ts'

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
 * It is a proof for all workers together: while one lives, or another server has started, the rest stay quarantined.
 * The clients of the wire open the segment for writing, those that only read too; the kernel counts no others.
 */
export class GoneWorkers {
  readonly #parts: MpParts
  #aloneSinceMs = Number.POSITIVE_INFINITY

  constructor(parts: MpParts) {
    this.#parts = parts
  }

  sweep(): void {
    const { instances, segment, clock } = this.#parts
    const all = instances.list()
    if (all.length === 0) return
    const nowMs = clock.nowMs()
    if (!segment.isOnlyOurs()) {
      this.#aloneSinceMs = Number.POSITIVE_INFINITY
      for (const instance of all) instance.hasMapped = true
      return
    }
    this.#aloneSinceMs = Math.min(this.#aloneSinceMs, nowMs)
    if (nowMs - this.#aloneSinceMs < ALONE_MS) return
    for (const instance of all) {
      if (instance.hasMapped && nowMs - instance.lastSeenMs >= QUIET_MS) this.#end(instance)
    }
  }

  #end(instance: ReturnType<MpParts['instances']['list']>[number]): void {
    const { engine, instances, log, onGone } = this.#parts
    const { id, model, openTransfers: transfers } = instance
    instance.end(engine.l1)
    engine.observed.instanceGone(id)
    instances.remove(id)
    log.warn({ instance: String(id), model, transfers }, 'the process of a worker is gone: what it held is free')
    if (transfers > 0) onGone?.({ worker: String(id), model, transfers })
  }
}
