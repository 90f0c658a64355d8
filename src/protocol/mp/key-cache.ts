import type { WireKey } from './messages.ts'

/** Shorter frames are read as fast as they are compared; longer ones would be much to keep. */
const FRAME_BYTES_MIN = 512
const FRAME_BYTES_MAX = 1024 * 1024

/**
 * The keys that were read last, by the bytes they came in: a commit repeats the key of its prepare, with all the tokens
 * of the prompt. Comparing them is ten times as fast as reading them. Bounded: each key takes the place of the oldest.
 */
export class KeyCache {
  readonly #frames: (Uint8Array | undefined)[]
  readonly #keys: (WireKey | undefined)[]
  #next = 0

  constructor(capacity = 64) {
    this.#frames = new Array(capacity).fill(undefined)
    this.#keys = new Array(capacity).fill(undefined)
  }

  /** What an equal frame was read to. */
  find(frame: Uint8Array): WireKey | undefined {
    if (frame.length < FRAME_BYTES_MIN || frame.length > FRAME_BYTES_MAX) return undefined
    for (const [at, known] of this.#frames.entries()) {
      if (known?.length === frame.length && Buffer.compare(known, frame) === 0) return this.#keys[at]
    }
    return undefined
  }

  /** Remembers a frame, as a copy, and its key. */
  add(frame: Uint8Array, key: WireKey): void {
    if (frame.length < FRAME_BYTES_MIN || frame.length > FRAME_BYTES_MAX) return
    this.#frames[this.#next] = new Uint8Array(frame)
    this.#keys[this.#next] = key
    this.#next = (this.#next + 1) % this.#frames.length
  }
}
