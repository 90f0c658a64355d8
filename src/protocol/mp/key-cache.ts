import type { WireKey } from './messages.ts'

/** Shorter frames are read as fast as they are compared; longer ones would be much to keep. */
const FRAME_BYTES_MIN = 512
const FRAME_BYTES_MAX = 1024 * 1024
/** Behind the tokens lies what tells requests for one prompt apart: compared first. */
const TAIL_BYTES = 256
const NO_BYTES = new Uint8Array(0)

/**
 * The keys that were read last, by the bytes they came in: a commit repeats the key of its prepare, with all the tokens
 * of the prompt. Comparing them is ten times as fast as reading them. Bounded: each key takes the place of the oldest.
 */
export class KeyCache {
  /** The copy of a frame is the start of one that is reused. */
  readonly #frames: Uint8Array[]
  readonly #lengths: Uint32Array
  readonly #keys: (WireKey | undefined)[]
  #next = 0

  constructor(capacity = 64) {
    this.#frames = new Array(capacity).fill(NO_BYTES)
    this.#lengths = new Uint32Array(capacity)
    this.#keys = new Array(capacity).fill(undefined)
  }

  /** What an equal frame was read to. */
  find(frame: Uint8Array): WireKey | undefined {
    if (frame.length < FRAME_BYTES_MIN || frame.length > FRAME_BYTES_MAX) return undefined
    for (let at = 0; at < this.#lengths.length; at += 1) {
      if (this.#lengths[at] === frame.length && isSame(this.#frames[at]!, frame)) return this.#keys[at]
    }
    return undefined
  }

  /** Remembers a frame, as a copy, and its key. */
  add(frame: Uint8Array, key: WireKey): void {
    if (frame.length < FRAME_BYTES_MIN || frame.length > FRAME_BYTES_MAX) return
    const at = this.#next
    const copy = this.#frames[at]!
    if (copy.length < frame.length || copy.length > 2 * frame.length) this.#frames[at] = new Uint8Array(frame)
    else copy.set(frame)
    this.#lengths[at] = frame.length
    this.#keys[at] = key
    this.#next = (at + 1) % this.#frames.length
  }
}

/** @param copy a frame of the same length, and perhaps more behind it. */
function isSame(copy: Uint8Array, frame: Uint8Array): boolean {
  const known = copy.subarray(0, frame.length)
  const isTailSame = Buffer.compare(known.subarray(-TAIL_BYTES), frame.subarray(-TAIL_BYTES)) === 0
  return isTailSame && Buffer.compare(known, frame) === 0
}
