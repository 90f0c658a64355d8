import type { HeldMemory } from './held-memory.ts'

const NOTHING = Buffer.alloc(0)
/** A message that claims to be longer gets its memory as it comes. */
const AT_ONCE_BYTES_MAX = 1024 * 1024

/**
 * The bytes of a connection from the start of the message under way on. As long as a chunk of the socket holds the whole
 * message, the window lies in the chunk and nothing is copied. Of a message that goes on in the next chunk the beginning
 * is held in memory of its own, and only as much is copied behind it as belongs to the message:
 *
 *     chunk 1   | message | message | mes|            the first two in place
 *     held                          | mes|sage|
 *     chunk 2                            |sage| message | ...
 */
export class InputWindow {
  readonly #memory: HeldMemory
  #chunk: Buffer = NOTHING
  /** Of the chunk: where the window starts, or when something is held, what goes on behind it. */
  #at = 0
  #held: Buffer | null = null
  #heldBytes = 0
  #isOutOfMemory = false

  constructor(memory: HeldMemory) {
    this.#memory = memory
  }

  /** Bytes of the chunk behind the first `bytes` of the window, all of which are there. */
  leftAfter(bytes: number): number {
    return this.#left - (this.#held === null ? bytes : 0)
  }

  /** More bytes. Those before are read to their end, as far as there is anything to read. */
  push(chunk: Buffer): void {
    this.#chunk = chunk
    this.#at = 0
  }

  /** Whether something could not be held, for want of memory: the connection is of no use any more. */
  get isOutOfMemory(): boolean {
    return this.#isOutOfMemory
  }

  /** Whether the first `need` bytes of the window are there. When not, everything is held until more come. */
  has(need: number): boolean {
    if (this.#held === null) {
      if (this.#left >= need) return true
      if (this.#left === 0) return false
    } else if (this.#heldBytes >= need) return true
    return this.#hold(need)
  }

  /** What is there of the first `bytes`, as a view. */
  head(bytes: number): Buffer {
    return this.view(0, Math.min(bytes, this.#held === null ? this.#left : this.#heldBytes))
  }

  byte(at: number): number {
    return this.#held === null ? this.#chunk[this.#at + at]! : this.#held[at]!
  }

  uint32(at: number): number {
    return this.#held === null ? this.#chunk.readUInt32BE(this.#at + at) : this.#held.readUInt32BE(at)
  }

  /** Bytes [from, to) of the window, as a view: right until `drop`. */
  view(from: number, to: number): Buffer {
    return this.#held === null ? this.#chunk.subarray(this.#at + from, this.#at + to) : this.#held.subarray(from, to)
  }

  /** The window starts behind its first `bytes`: all that is held, when something is. */
  drop(bytes: number): void {
    if (this.#held === null) this.#at += bytes
    else this.release()
  }

  /** Gives back the memory of what is held. */
  release(): void {
    if (this.#held !== null) this.#memory.give(this.#held)
    this.#held = null
    this.#heldBytes = 0
  }

  /** Bytes of the chunk behind the window's start, or behind what is held. */
  get #left(): number {
    return this.#chunk.length - this.#at
  }

  /** Moves bytes of the chunk to those that are held, `need` at most. @returns as `has`. */
  #hold(need: number): boolean {
    const bytes = Math.min(need - this.#heldBytes, this.#left)
    if (!this.#fit(this.#heldBytes + bytes, need)) {
      this.#isOutOfMemory = true
      return false
    }
    this.#chunk.copy(this.#held!, this.#heldBytes, this.#at, this.#at + bytes)
    this.#heldBytes += bytes
    this.#at += bytes
    return this.#heldBytes === need
  }

  /** Makes room for `bytes`, and for all of `need` unless it is much. */
  #fit(bytes: number, need: number): boolean {
    if (this.#held !== null && this.#held.length >= bytes) return true
    const wanted = need <= AT_ONCE_BYTES_MAX ? need : Math.min(need, Math.max(AT_ONCE_BYTES_MAX, 3 * bytes))
    const larger = this.#memory.take(wanted)
    if (larger === null) return false
    if (this.#held !== null) {
      this.#held.copy(larger, 0, 0, this.#heldBytes)
      this.#memory.give(this.#held)
    }
    this.#held = larger
    return true
  }
}
