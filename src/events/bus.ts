import { assert } from '../core/assert.ts'
import type { EventType } from './define.ts'

/**
 * Told each event of a batch, oldest first: `records[at + EVENT_TYPE]` and so on, valid during the call. It reads the ring
 * in place, because numbers that are passed as arguments would be boxed, one by one.
 */
export type EventHandler = (records: Float64Array, at: number) => void

/** Places in a record. A, B and C follow the event's `payload`. */
export const EVENT_TYPE = 0
export const EVENT_TENANT = 1
export const EVENT_TIME_MS = 2
export const EVENT_A = 3
export const EVENT_B = 4
export const EVENT_C = 5

/** What a producer sees of the bus. */
export interface EventSink {
  /** Never blocks and never throws: when the ring is full this newest event is dropped and counted by type. */
  publish(type: EventType, tenant: number, timeMs: number, a?: number, b?: number, c?: number): void
}

/** For whoever publishes several events at once. */
export interface EventBatchSink extends EventSink {
  /** As `publish`, but the event is on its way only after a `flush`, or the next `publish`. */
  enqueue(type: EventType, tenant: number, timeMs: number, a?: number, b?: number, c?: number): void
  flush(): void
}

/** Kinds of event that the bus can count. */
export const EVENT_TYPES_MAX = 64

// The shared buffer:
//
//   bytes 0..192     Int32   head, tail and capacity, a cache line each; head, tail: events ever written, read, mod 2^32
//   then             Float64 dropped in all | dropped by type (EVENT_TYPES_MAX)
//   then             Float64 capacity records of 6: type id | tenant | time, ms | a | b | c
//
// The producer fills the record, then moves head; the consumer delivers a few, then moves tail. Events being
// delivered therefore still count in the depth, and the first of them is the oldest one.
const HEAD = 0
const TAIL = 16
const CAPACITY = 32
const HEADER_BYTES = 192
const DROPPED_DOUBLES = 1 + EVENT_TYPES_MAX
const RECORD_DOUBLES = 6
const READ_TRIES = 8
/** Events after which a drain gives their places back. */
const TAIL_EVENTS = 64

/** A bounded ring of events between two threads: one produces, one drains. Any thread may read its counts. */
export class EventBus implements EventBatchSink {
  readonly buffer: SharedArrayBuffer
  readonly capacityEvents: number
  readonly #indices: Int32Array
  readonly #dropped: Float64Array
  readonly #records: Float64Array
  readonly #mask: number
  // The producer's own copies, which save it two atomic reads an event: only it moves head, and tail only grows.
  #head: number
  /** As far as the consumer was told. */
  #toldHead: number
  #seenTail: number

  private constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer
    this.#indices = new Int32Array(buffer, 0, HEADER_BYTES / 4)
    this.capacityEvents = this.#indices[CAPACITY]!
    this.#mask = this.capacityEvents - 1
    this.#dropped = new Float64Array(buffer, HEADER_BYTES, DROPPED_DOUBLES)
    this.#records = new Float64Array(buffer, HEADER_BYTES + DROPPED_DOUBLES * 8, this.capacityEvents * RECORD_DOUBLES)
    this.#head = Atomics.load(this.#indices, HEAD)
    this.#toldHead = this.#head
    this.#seenTail = Atomics.load(this.#indices, TAIL)
  }

  /** @param capacityEvents a power of two. */
  static create(capacityEvents: number): EventBus {
    const isPowerOfTwo = capacityEvents > 0 && Number.isInteger(Math.log2(capacityEvents))
    assert(isPowerOfTwo && capacityEvents <= 2 ** 30, 'bus capacity is not a power of two')
    const doubles = DROPPED_DOUBLES + capacityEvents * RECORD_DOUBLES
    const buffer = new SharedArrayBuffer(HEADER_BYTES + doubles * 8)
    new Int32Array(buffer, 0, HEADER_BYTES / 4)[CAPACITY] = capacityEvents
    return new EventBus(buffer)
  }

  /** The bus of another thread, from its `buffer`. */
  static attach(buffer: SharedArrayBuffer): EventBus {
    return new EventBus(buffer)
  }

  publish(type: EventType, tenant: number, timeMs: number, a = 0, b = 0, c = 0): void {
    this.enqueue(type, tenant, timeMs, a, b, c)
    this.flush()
  }

  enqueue(type: EventType, tenant: number, timeMs: number, a = 0, b = 0, c = 0): void {
    const head = this.#head
    if (((head - this.#seenTail) | 0) >= this.capacityEvents) {
      this.#seenTail = Atomics.load(this.#indices, TAIL)
      if (((head - this.#seenTail) | 0) >= this.capacityEvents) {
        this.#dropped[0]! += 1
        this.#dropped[1 + type.id]! += 1
        return
      }
    }
    const records = this.#records
    const at = (head & this.#mask) * RECORD_DOUBLES
    records[at] = type.id
    records[at + 1] = tenant
    records[at + 2] = timeMs
    records[at + 3] = a
    records[at + 4] = b
    records[at + 5] = c
    this.#head = (head + 1) | 0
  }

  /** One store for all events since the last call: it waits until their memory is the processor's own. */
  flush(): void {
    if (this.#head === this.#toldHead) return
    this.#toldHead = this.#head
    Atomics.store(this.#indices, HEAD, this.#head)
  }

  /**
   * Delivers at most `maxEvents` of the events there are now. An event whose handler throws counts as delivered;
   * the error is passed on, and the rest of the batch waits for the next call.
   *
   * @returns events delivered.
   */
  drain(maxEvents: number, handler: EventHandler): number {
    const indices = this.#indices
    const records = this.#records
    const first = Atomics.load(indices, TAIL)
    const count = Math.min(maxEvents, (Atomics.load(indices, HEAD) - first) | 0)
    let next = first
    try {
      for (let left = count; left > 0; left -= 1) {
        const at = (next & this.#mask) * RECORD_DOUBLES
        next = (next + 1) | 0
        handler(records, at)
        if ((left & (TAIL_EVENTS - 1)) === 0) Atomics.store(indices, TAIL, next)
      }
    } finally {
      Atomics.store(indices, TAIL, next)
    }
    return count
  }

  /** Events not yet delivered, those being delivered included. */
  depth(): number {
    const tail = Atomics.load(this.#indices, TAIL) // before head: head only grows, so the difference is never negative
    return Math.min(this.capacityEvents, (Atomics.load(this.#indices, HEAD) - tail) | 0)
  }

  /** Time of the oldest undelivered event, those being delivered included; 0 when there is none. */
  oldestTimeMs(): number {
    let timeMs = 0
    for (let i = 0; i < READ_TRIES; i += 1) {
      const tail = Atomics.load(this.#indices, TAIL)
      if (Atomics.load(this.#indices, HEAD) === tail) return 0
      timeMs = this.#records[(tail & this.#mask) * RECORD_DOUBLES + 2]!
      // Once tail has moved on, the producer may have written over the record: read again.
      if (Atomics.load(this.#indices, TAIL) === tail) break
    }
    return timeMs
  }

  /** Events dropped because the ring was full. */
  dropped(): number {
    return this.#dropped[0]!
  }

  droppedOf(typeId: number): number {
    return this.#dropped[1 + typeId]!
  }
}
