import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import type { CopyBatch, SharingDevice, StreamId } from '../l0/device.ts'

// Order between the kernels of an inference process and what the engine does, without either waiting for the other's
// processor: 64-bit words in GPU memory of that process, each of which only grows.
//
//   their stream:  kernels write blocks | word a := 7             word b >= 9 | kernels read blocks
//                                            |                        ^
//   the engine:                        waits for a >= 7, copies, b := 9  (9 + FAILED when the copy failed)
//
// A wait has a stream of its own, so that a process that never writes its word holds up nobody else. It ends after
// WAIT_MS at the latest: the engine then writes the word itself, and refuses what was to follow.

/** Where the words lie: IPC handle of the allocation, offset in it. */
export interface TimelineRequest {
  readonly handle: Uint8Array
  readonly offset: number
  readonly words: number
}

/** A word and the value that it has to reach, or is given. */
export interface TimelinePoint {
  readonly word: number
  readonly value: number
}

/** Words of one process at most: a page. */
export const TIMELINE_WORDS_MAX = 512
/** Added to the value of a signal when what it tells of failed; values themselves are below. */
export const TIMELINE_FAILED = 2 ** 52
const WORD_BYTES = 8
/** Longest wait for a word. Shorter than what a closing of the device waits for its streams. */
export const WAIT_MS = 5_000
/** Timelines at most: with the streams of copies, no more than there are queues of the hardware (`app/open-device`). */
export const TIMELINES_MAX = 16

const NOTHING: CopyBatch = {
  direction: 'load',
  count: 0,
  deviceOffsets: new Float64Array(0),
  hostOffsets: new Float64Array(0),
  lengths: new Float64Array(0),
}

/** The timelines of all processes on one device; they share its streams, which cannot be given back. */
export class DeviceTimelines {
  readonly #clock: Clock
  readonly #open = new Set<Timeline>()
  readonly #idle: StreamId[] = []
  #signals: StreamId | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** @throws CacheError BAD_REQUEST, NO_ROOM, DEVICE_UNAVAILABLE, DEVICE_FAULT */
  open(device: SharingDevice, { handle, offset, words }: TimelineRequest): Timeline {
    if (offset % WORD_BYTES !== 0) throw refused('timeline.offset', `words lie at multiples of ${WORD_BYTES}`)
    if (this.#open.size >= TIMELINES_MAX) {
      throw new CacheError('NO_ROOM', `${TIMELINES_MAX} processes have a timeline, which is the limit`)
    }
    const pool = device.importPool(handle, offset, words * WORD_BYTES)
    this.#signals ??= device.createStream()
    const stream = this.#idle.pop() ?? device.createStream()
    const onClose = (closed: Timeline) => {
      this.#open.delete(closed)
      this.#idle.push(stream)
    }
    const timeline = new Timeline({ device, clock: this.#clock, pool, words, stream, signals: this.#signals, onClose })
    this.#open.add(timeline)
    return timeline
  }

  /** Ends every wait: the device is about to close. */
  endWaits(): void {
    for (const timeline of this.#open) timeline.endWaits()
  }
}

interface TimelineParts {
  readonly device: SharingDevice
  readonly clock: Clock
  readonly pool: number
  readonly words: number
  /** Where its waits go. */
  readonly stream: StreamId
  /** Where nobody ever waits. */
  readonly signals: StreamId
  readonly onClose: (closed: Timeline) => void
}

/** The words of one process. */
export class Timeline {
  readonly #parts: TimelineParts
  readonly #waits = new Set<() => void>()
  #isClosed = false

  constructor(parts: TimelineParts) {
    this.#parts = parts
  }

  /** @throws CacheError BAD_REQUEST when there is no such word. */
  check({ word }: TimelinePoint): void {
    if (word >= this.#parts.words) throw refused('word', `the timeline has ${this.#parts.words} words`)
  }

  /**
   * Resolves once the word has its value: what the process had queued before is done then.
   *
   * @throws CacheError DEVICE_TIMEOUT after `WAIT_MS` or when the timeline ends, DEVICE_FAULT
   */
  reached(point: TimelinePoint): Promise<void> {
    this.check(point)
    assert(!this.#isClosed, 'wait on a timeline that is closed')
    const { device, clock, pool, stream } = this.#parts
    const { word, value } = point
    device.waitForValue(stream, pool, word * WORD_BYTES, value)
    return new Promise((resolve, reject) => {
      let isGivenUp = false
      const giveUp = () => {
        isGivenUp = true
        this.#write(word, value)
      }
      const timer = clock.schedule(WAIT_MS, giveUp)
      this.#waits.add(giveUp)
      device.submit(stream, NOTHING, (_, error) => {
        timer.cancel()
        this.#waits.delete(giveUp)
        if (error !== null) reject(error)
        else if (isGivenUp) reject(new CacheError('DEVICE_TIMEOUT', `word ${word} did not reach ${value} in time`))
        else resolve()
      })
    })
  }

  /** Writes the word: what it stands for is done, well or not. Does nothing once closed. */
  signal({ word, value }: TimelinePoint, isFine: boolean): void {
    if (!this.#isClosed) this.#write(word, isFine ? value : value + TIMELINE_FAILED)
  }

  endWaits(): void {
    for (const giveUp of [...this.#waits]) giveUp()
  }

  /** Ends the waits and gives the memory back; resolves when it is given back. Idempotent. */
  async close(): Promise<void> {
    if (this.#isClosed) return
    this.endWaits()
    this.#isClosed = true
    const { device, pool, onClose } = this.#parts
    onClose(this)
    await new Promise<void>((resolve) => device.closePool(pool, resolve))
  }

  #write(word: number, value: number): void {
    const { device, signals, pool } = this.#parts
    device.signal(signals, pool, word * WORD_BYTES, value)
  }
}

function refused(field: string, reason: string): CacheError {
  return new CacheError('BAD_REQUEST', `${field}: ${reason}`, { field })
}
