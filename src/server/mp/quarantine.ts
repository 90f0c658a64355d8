import type { LateSlots } from './instances.ts'
import type { MpParts } from './parts.ts'

/** A worker that let leases expire, and what it may still touch. */
export interface LateWorker extends LateSlots {
  /** Its instance id. */
  readonly worker: string
  readonly model: string
  /** It was silent for too long; else it works on, and is only late. */
  readonly isSilent: boolean
  readonly silentMs: number
}

/**
 * What the operator sees and may decide of slots that are kept for workers whose leases have expired.
 *
 * The wire cannot revoke a lease, so silence frees nothing: the worker may be copying at this moment. It frees its slots
 * itself by the late commit, or when it registers again. Of a worker that will never speak again only people know.
 */
export class Quarantine {
  readonly #parts: MpParts

  constructor(parts: MpParts) {
    this.#parts = parts
  }

  list(): LateWorker[] {
    const { engine, instances, clock } = this.#parts
    return instances.list().flatMap((instance) => {
      const late = instance.lateSlots(engine.l1)
      if (late.transfers === 0) return []
      const { id, model, isReaped, lastSeenMs } = instance
      const silentMs = clock.nowMs() - lastSeenMs
      return [{ worker: String(id), model, isSilent: isReaped, silentMs, ...late }]
    })
  }

  /**
   * Frees what a worker, or every worker (null), let expire: the caller knows that nothing copies there any more.
   *
   * @returns what was freed; of a worker that has nothing, nothing.
   */
  release(worker: string | null): LateWorker[] {
    const { engine, instances, log } = this.#parts
    const freed = this.list().filter((one) => worker === null || one.worker === worker)
    for (const { worker: id, model, writeBytes, readBytes } of freed) {
      const instance = instances.find(BigInt(id))!
      instance.releaseLate(engine.l1)
      instances.forgetIfDone(instance)
      log.warn({ instance: id, model, writeBytes, readBytes }, 'quarantined slots of a worker are freed by order')
    }
    return freed
  }
}
