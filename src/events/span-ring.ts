import { assert } from '../core/assert.ts'

// The shared buffer:
//
//   bytes 0..64      Int32   head | tail | capacity | is paused      head, tail: spans ever written, read, mod 2^32
//   then             Float64 capacity records of 20:
//
//   | trace id, 4 words | span id, 2 words | parent id, 2 words | kind | flags | start, ms | end, ms |
//   | tenant | adapter | outcome | chunks | bytes | three numbers of the kind |
//
// The producer fills the record, then moves head; the consumer reads it, then moves tail.
const HEAD = 0
const TAIL = 1
const CAPACITY = 2
const PAUSED = 3
const HEADER_BYTES = 64

/** Doubles of one record, and where each is. Ids are big-endian words of 32 bits; no parent = two zeros. */
export const SPAN_DOUBLES = 20
export const SPAN_AT = {
  trace: 0,
  id: 4,
  parent: 6,
  kind: 8,
  flags: 9,
  startMs: 10,
  endMs: 11,
  /** Row, -1 = none. */
  tenant: 12,
  /** Row, -1 = none. */
  adapter: 13,
  outcome: 14,
  chunks: 15,
  bytes: 16,
  /** Three numbers, by the kind's `numbers`. */
  numbers: 17,
} as const

/** Bits of a record's flags: the parent is another process's span; the trace began here. */
export const SPAN_REMOTE_PARENT = 1
export const SPAN_OWN_TRACE = 2

/** A bounded ring of ended spans between two threads: one produces, one drains. */
export class SpanRing {
  readonly buffer: SharedArrayBuffer
  readonly capacitySpans: number
  /** Where the producer writes: the record at `slot()`. */
  readonly records: Float64Array
  readonly #indices: Int32Array
  readonly #mask: number
  // The producer's own copies: only it moves head, and tail only grows.
  #head: number
  #seenTail: number

  private constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer
    this.#indices = new Int32Array(buffer, 0, HEADER_BYTES / 4)
    this.capacitySpans = this.#indices[CAPACITY]!
    this.#mask = this.capacitySpans - 1
    this.records = new Float64Array(buffer, HEADER_BYTES, this.capacitySpans * SPAN_DOUBLES)
    this.#head = Atomics.load(this.#indices, HEAD)
    this.#seenTail = Atomics.load(this.#indices, TAIL)
  }

  /** @param capacitySpans a power of two. */
  static create(capacitySpans: number): SpanRing {
    const isPowerOfTwo = capacitySpans > 0 && Number.isInteger(Math.log2(capacitySpans))
    assert(isPowerOfTwo && capacitySpans <= 2 ** 24, 'ring capacity is not a power of two')
    const buffer = new SharedArrayBuffer(HEADER_BYTES + capacitySpans * SPAN_DOUBLES * 8)
    new Int32Array(buffer, 0, 4)[CAPACITY] = capacitySpans
    return new SpanRing(buffer)
  }

  /** The ring of another thread, from its `buffer`. */
  static attach(buffer: SharedArrayBuffer): SpanRing {
    return new SpanRing(buffer)
  }

  /** Nobody takes spans for the time being: none should begin. */
  get isPaused(): boolean {
    return this.#indices[PAUSED] === 1
  }

  /** Set by the consumer. */
  set isPaused(isPaused: boolean) {
    Atomics.store(this.#indices, PAUSED, isPaused ? 1 : 0)
  }

  /** Where in `records` the next span is to be written, before `commit`; -1 when the ring is full. */
  slot(): number {
    if (((this.#head - this.#seenTail) | 0) >= this.capacitySpans) {
      this.#seenTail = Atomics.load(this.#indices, TAIL)
      if (((this.#head - this.#seenTail) | 0) >= this.capacitySpans) return -1
    }
    return (this.#head & this.#mask) * SPAN_DOUBLES
  }

  /** Hands over what was written at `slot`. */
  commit(): void {
    this.#head = (this.#head + 1) | 0
    Atomics.store(this.#indices, HEAD, this.#head)
  }

  /** Gives `take` the place of each span that is there now in `records`, oldest first. @returns how many. */
  drain(take: (records: Float64Array, at: number) => void): number {
    const first = Atomics.load(this.#indices, TAIL)
    const count = (Atomics.load(this.#indices, HEAD) - first) | 0
    for (let i = 0; i < count; i += 1) {
      take(this.records, ((first + i) & this.#mask) * SPAN_DOUBLES)
      Atomics.store(this.#indices, TAIL, (first + i + 1) | 0)
    }
    return count
  }
}
