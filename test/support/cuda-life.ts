import assert from 'node:assert/strict'
import { CudaDevice } from '../../src/l0/cuda-device.ts'
import type { BlockLists, Direction } from '../../src/l0/device.ts'
import type { Addon } from '../../src/native/addon.ts'
import { type CudaDriver, probeCuda } from '../../src/native/cuda.ts'

// One device's life, and what must be true of it whatever fails, in a model of its bytes:
//
//   pool  | blocks of stream 0 | blocks of stream 1 |     a transfer moves blocks of its stream's own halves, so the
//   host  | places of stream 0 | places of stream 1 |     order of fences is the order in which bytes moved
//
// Every block and every place holds one byte repeated, or UNKNOWN after a transfer to it failed midway. A swap hands each
// stream's halves to the other one, by a wait in both directions.

const BLOCK_BYTES = 512
const BLOCKS = 64
const PLACES = 128
const HALF = BLOCKS / 2
/** Of a layout: each block has a piece in the first and one in the second quarter of its stream's half. */
const PLANE = BLOCKS / 4
const UNKNOWN = -1

interface Step {
  readonly stream: number
  readonly direction: Direction
  /** Of each piece. */
  readonly blocks: readonly number[]
  readonly places: readonly number[]
  /** It names memory that is not there, so it moves nothing and says which piece. */
  readonly isWrong: boolean
}

/** A device with a model beside it. Each method throws what is not as it must be. */
export class CudaLife {
  readonly #next: (limit: number) => number
  readonly #device: CudaDevice
  readonly #host = new Uint8Array(PLACES * BLOCK_BYTES)
  readonly #pool = new Int16Array(BLOCKS).fill(UNKNOWN)
  readonly #places = new Int16Array(PLACES)
  readonly #lists: BlockLists
  /** Submitted, without a fence so far, by stream. */
  readonly #queues: Step[][] = [[], []]
  readonly #halves = [0, 1]
  #layout = -1
  #settled: (() => void) | null = null
  #isClosed = false
  fences = 0

  /** @param next a seeded generator. */
  constructor(next: (limit: number) => number, library: string, addon: Addon) {
    this.#next = next
    const driver = probeCuda(library, addon)
    assert(driver.available)
    const methods = (['batch', 'kernel'] as const).filter(() => next(2) === 0)
    this.#device = new CudaDevice({ library, ordinal: 0, methods, closeMs: 60_000 }, driver as CudaDriver, addon)
    const list = (block: number) => (block % HALF === HALF - 1 ? -1 : block + 1)
    this.#lists = { next: Int32Array.from({ length: BLOCKS }, (_, block) => list(block)), blockBytes: BLOCK_BYTES }
  }

  /** False when the device cannot be opened, or has lost its context before it is ready. */
  open(): boolean {
    try {
      this.#device.open(BLOCKS * BLOCK_BYTES, this.#host)
    } catch {
      return false
    }
    const streams = [this.#device.createStream(), this.#device.createStream()]
    if (streams[0] !== 0 || streams[1] !== 1) return false
    try {
      const planes = [0, PLANE * BLOCK_BYTES]
      this.#layout = this.#device.addLayout([0, 0], { planes, blockStride: BLOCK_BYTES, blockBytes: BLOCK_BYTES })
    } catch {
      return false
    }
    this.#fill()
    return true
  }

  /** One random operation. */
  async step(): Promise<void> {
    const next = this.#next
    const kind = next(12)
    if (kind < 3) this.#submitListed()
    else if (kind < 6) this.#submitPaged()
    else if (kind < 9) this.#submitRuns()
    else if (kind === 9) this.#swap()
    else await this.rest()
  }

  /** Waits for all fences, looks at all bytes, and writes new ones. */
  async rest(): Promise<void> {
    if (this.#device.pending > 0) {
      await new Promise<void>((resolve) => {
        this.#settled = resolve
      })
    }
    assert.deepEqual(this.#queues, [[], []], 'a transfer without a fence')
    for (let place = 0; place < PLACES; place += 1) {
      const wanted = this.#places[place]!
      const bytes = this.#host.subarray(place * BLOCK_BYTES, (place + 1) * BLOCK_BYTES)
      if (wanted !== UNKNOWN)
        assert(
          bytes.every((byte) => byte === wanted),
          `the bytes of place ${place}`,
        )
    }
    this.#fill()
  }

  /** Ends it at once: what is under way has its fence, an error, before this returns, and none after. */
  close(): void {
    const left = this.#device.pending
    const before = this.fences
    this.#isClosed = true
    this.#device.close()
    assert.equal(this.fences - before, left, 'fences at the close')
    assert.equal(this.#device.pending, 0)
  }

  #fill(): void {
    for (let i = this.#next(PLACES); i > 0; i -= 1) {
      const place = this.#next(PLACES)
      this.#places[place] = this.#next(256)
      this.#host.fill(this.#places[place]!, place * BLOCK_BYTES, (place + 1) * BLOCK_BYTES)
    }
  }

  #start(step: Step): (seconds: number, error: Error | null) => void {
    this.#queues[step.stream]!.push(step)
    return (_, error) => this.#end(step, error)
  }

  #end(step: Step, error: Error | null): void {
    this.fences += 1
    if (this.#isClosed) {
      assert(error !== null, 'a transfer that was closed off and says it is done')
      return
    }
    assert.equal(this.#queues[step.stream]!.shift(), step, 'the order of fences')
    if (step.isWrong) assert(error !== null, 'a wrong transfer went well')
    const [to, from] = step.direction === 'load' ? [this.#pool, this.#places] : [this.#places, this.#pool]
    const [target, source] = step.direction === 'load' ? [step.blocks, step.places] : [step.places, step.blocks]
    for (const [i, at] of target.entries()) {
      if (!step.isWrong) to[at] = error === null ? from[source[i]!]! : UNKNOWN
    }
    if (this.#device.pending === 0) {
      this.#settled?.()
      this.#settled = null
    }
  }

  /** Some places of a stream one after another, and as many of its blocks, each once. */
  #draw(most: number): { stream: number; direction: Direction; half: number; place: number; count: number } {
    const stream = this.#next(2)
    const count = 1 + this.#next(most)
    const half = this.#halves[stream]!
    const place = half * (PLACES / 2) + this.#next(PLACES / 2 - 2 * count)
    return { stream, direction: this.#next(2) === 0 ? 'load' : 'store', half, place, count }
  }

  #submitListed(): void {
    const { stream, direction, half, place, count } = this.#draw(6)
    const first = this.#next(HALF)
    const blocks = Array.from({ length: count }, (_, i) => half * HALF + ((first + i * 5) % HALF))
    const places = blocks.map((_, i) => place + i)
    const isWrong = this.#next(10) === 0
    const deviceOffsets = Float64Array.from(blocks, (block) => block * BLOCK_BYTES)
    if (isWrong) deviceOffsets[count - 1] = BLOCKS * BLOCK_BYTES
    const hostOffsets = Float64Array.from(places, (one) => one * BLOCK_BYTES)
    const lengths = new Float64Array(count).fill(BLOCK_BYTES)
    const done = this.#start({ stream, direction, blocks, places, isWrong })
    this.#device.submit(stream, { direction, count, deviceOffsets, hostOffsets, lengths }, done)
  }

  #submitPaged(): void {
    const { stream, direction, half, place, count } = this.#draw(4)
    const first = this.#next(PLANE)
    const ids = Array.from({ length: count }, (_, i) => half * HALF + ((first + i * 3) % PLANE))
    const isWrong = this.#next(10) === 0
    const blocks = [...ids, ...ids.map((block) => block + PLANE)]
    const given = Int32Array.from(ids, (block, i) => (isWrong && i === count - 1 ? BLOCKS : block))
    const places = blocks.map((_, i) => place + i)
    const done = this.#start({ stream, direction, blocks, places, isWrong })
    const hostOffsets = Float64Array.of(place * BLOCK_BYTES)
    const batch = { direction, layout: this.#layout, blocks: given, blockCount: count, hostOffsets, shards: 1 }
    this.#device.submitPaged(stream, batch, done)
  }

  #submitRuns(): void {
    const { stream, direction, half, place, count } = this.#draw(8)
    const isWrong = this.#next(10) === 0
    // A list ends with its half: a row that goes on has nowhere to go.
    const first = isWrong ? HALF - count : this.#next(HALF - count)
    const blocks = Array.from({ length: count }, (_, i) => half * HALF + first + i)
    const places = blocks.map((_, i) => place + i)
    const skipped = this.#next(first + 1)
    const done = this.#start({ stream, direction, blocks, places, isWrong })
    this.#device.submitRuns(
      stream,
      {
        direction,
        count: 1,
        lists: this.#lists,
        firstBlocks: Int32Array.of(half * HALF + first - skipped),
        skipBytes: Float64Array.of(skipped * BLOCK_BYTES),
        hostOffsets: Float64Array.of(place * BLOCK_BYTES),
        rowBytes: (count + (isWrong ? 1 : 0)) * BLOCK_BYTES,
      },
      done,
    )
  }

  #swap(): void {
    this.#device.wait(0, 1)
    this.#device.wait(1, 0)
    this.#halves.reverse()
  }
}
