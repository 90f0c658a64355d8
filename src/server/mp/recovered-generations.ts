import { decodeIncoming, instanceIn } from '../../protocol/mp/codec.ts'
import { CURRENT_GENERATION, GENERATIONS, type Generation } from '../../protocol/mp/generations.ts'

/** Frames in front of the payload: uid and operation. */
const PAYLOAD_AT = 2
/** Payload frames that may be an instance id: it is the first or the second of every operation that has one. */
const INSTANCE_FRAMES = 2

/**
 * The numberings of workers that an earlier engine knew. A client that outlives the engine greets nobody again: it goes on
 * with numbers that mean one thing or another. They are told apart by the worker's id, where the message has one; else by
 * what was in use at all, and what the message can be read as.
 */
export class RecoveredGenerations {
  readonly #byWorker = new Map<bigint, Generation>()

  /** @param clients as `Generation.clients`; of another version of kvtier it may be unknown. */
  add(instanceId: bigint, clients: string): void {
    const generation = GENERATIONS.find((one) => one.clients === clients)
    if (generation !== undefined) this.#byWorker.set(instanceId, generation)
  }

  /** The numbering of a client that did not greet, by one message without the identity; that of today when none fits. */
  of(frames: readonly Uint8Array[]): { readonly generation: Generation; readonly isCertain: boolean } {
    if (this.#byWorker.size === 0) return { generation: CURRENT_GENERATION, isCertain: false }
    for (const frame of frames.slice(PAYLOAD_AT, PAYLOAD_AT + INSTANCE_FRAMES)) {
      const id = instanceIn(frame)
      const generation = id === null ? undefined : this.#byWorker.get(id)
      if (generation !== undefined) return { generation, isCertain: true }
    }
    const inUse = [...new Set(this.#byWorker.values())]
    const fitting = inUse.filter((one) => decodeIncoming(frames, one).kind === 'request')
    return { generation: fitting[0] ?? inUse[0]!, isCertain: fitting.length === 1 }
  }
}
