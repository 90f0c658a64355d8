import { instanceIn } from '../../protocol/mp/codec.ts'
import { GENERATIONS, type Generation, opOf } from '../../protocol/mp/generations.ts'

/** Frames in front of the payload: uid and operation. */
const PAYLOAD_AT = 2
/** Payload frames that may be an instance id: it is the first or the second of every operation that has one. */
const INSTANCE_FRAMES = 2
/** How long after a start clients of the engine before are expected: some heartbeats. */
const AWAITED_MS = 60_000

/**
 * The numberings of workers that an earlier engine knew. A client that outlives the engine greets nobody again: it goes on
 * with numbers that mean one thing or another. See `generationFor`.
 */
export class RecoveredGenerations {
  readonly #byWorker = new Map<bigint, Generation>()
  #awaitedUntilMs = 0

  /** @param clients as `Generation.clients`; of another version of kvtier it may be unknown. */
  add(instanceId: bigint, clients: string, nowMs: number): void {
    const generation = GENERATIONS.find((one) => one.clients === clients)
    if (generation === undefined) return
    this.#byWorker.set(instanceId, generation)
    this.#awaitedUntilMs = nowMs + AWAITED_MS
  }

  get inUse(): ReadonlySet<Generation> {
    return new Set(this.#byWorker.values())
  }

  /** The numbering of the worker that a message names, if it is one of these. */
  ofWorker(frames: readonly Uint8Array[]): Generation | undefined {
    for (const frame of frames.slice(PAYLOAD_AT, PAYLOAD_AT + INSTANCE_FRAMES)) {
      const id = instanceIn(frame)
      const generation = id === null ? undefined : this.#byWorker.get(id)
      if (generation !== undefined) return generation
    }
    return undefined
  }

  /** Whether an operation without payload may be the heartbeat of a client of the engine before. */
  mayBeHeartbeat(op: number, nowMs: number): boolean {
    return nowMs < this.#awaitedUntilMs && [...this.inUse].some((generation) => opOf(generation, op) === 'ping')
  }
}
