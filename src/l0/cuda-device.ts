import { assert } from '../core/assert.ts'
import { CacheError } from '../core/errors.ts'
import { type Addon, loadAddon } from '../native/addon.ts'
import {
  COPY_METHODS,
  type CopyMethod,
  type CudaDriver,
  type CudaFailure,
  type CudaFigures,
  type CudaFunctions,
  FENCE_WORDS,
} from '../native/cuda.ts'
import type {
  BlockLists,
  CopyBatch,
  DeviceInfo,
  PagedBatch,
  PagedLayout,
  RunBatch,
  SharingDevice,
  StreamId,
} from './device.ts'

// state:  new --open--> open --an error that ends the context--> lost
//                         \---------------close-----------------\--> closed
// The work is done by src/native/addon/cuda: a thread that makes every call of the driver, and one for each stream that
// waits for its fences. This side numbers transfers and hands their fences on.

export interface CudaDeviceOptions {
  /** As `probeCuda` was asked. */
  readonly library: string
  readonly ordinal: number
  /** Methods that may be used, besides the loop. */
  readonly methods?: readonly CopyMethod[]
  /** Seconds that the table of methods may take at `open`; 0 = no table. */
  readonly measureSeconds?: number
  /** What a closing waits for transfers under way, before it leaves the memory to them. Default: 10 s. */
  readonly closeMs?: number
}

type Done = (busySeconds: number, error: Error | null) => void

/** Fences handed over in one call at most. */
const MAIL_FENCES = 256
/** The clock of events has half a microsecond: a transfer that took less took this. */
const LEAST_SECONDS = 0.5e-6
const CLOSE_MS = 10_000

/**
 * A real GPU, by the CUDA driver. Cost on this thread: a queue entry a transfer, and a copy of the numbers that describe
 * it: a few a row of a `submitRuns`, one a block of a `submitPaged`, three a piece of a `submit`.
 */
export class CudaDevice implements SharingDevice {
  readonly info: DeviceInfo
  readonly #options: CudaDeviceOptions
  readonly #addon: Addon
  readonly #done: (Done | null)[] = []
  readonly #free: number[] = []
  readonly #mail = new Float64Array(MAIL_FENCES * FENCE_WORDS)
  #pending = 0
  #native: CudaFunctions | null = null
  #state: 'new' | SharingDevice['state'] = 'new'
  #last: CudaFigures | null = null
  #lists: BlockLists | null = null

  /** @param driver what the probe found. @throws AssertionError when it has no such device. */
  constructor(options: CudaDeviceOptions, driver: CudaDriver, addon: Addon | string = loadAddon()) {
    assert(typeof addon !== 'string', 'a driver without the addon')
    const facts = driver.devices.find(({ ordinal }) => ordinal === options.ordinal)
    assert(facts !== undefined, 'a device that the probe did not find')
    const { major, minor } = {
      major: Math.trunc(driver.driverVersion / 1000),
      minor: (driver.driverVersion % 1000) / 10,
    }
    const kind = driver.isStandIn ? 'stand-in driver' : 'driver'
    this.info = {
      kind: 'cuda',
      name: facts.name,
      profile: `${kind} CUDA ${major}.${minor}`,
      capacityBytes: facts.bytes,
    }
    this.#options = options
    this.#addon = addon
  }

  get state(): SharingDevice['state'] {
    return this.#state === 'new' ? 'closed' : this.#state
  }

  /** Transfers whose fence has not come. */
  get pending(): number {
    return this.#pending
  }

  /** @throws CacheError DEVICE_OUT_OF_MEMORY, DEVICE_FAULT when the host memory is not registered or there is no context */
  open(poolBytes: number, host: Uint8Array | null): void {
    assert(this.#state === 'new', 'device opened twice')
    const { library, ordinal, methods = COPY_METHODS, measureSeconds = 0 } = this.#options
    const bits = COPY_METHODS.reduce((sum, name, bit) => sum | (methods.includes(name) ? 1 << bit : 0), 1)
    const opened = this.#addon.cudaOpen(library, ordinal, poolBytes, host, bits, this.#mail, (count, lost) => {
      this.#receive(count, lost)
    })
    if (typeof opened === 'string') throw this.#openError(JSON.parse(opened) as CudaFailure, poolBytes)
    this.#native = opened
    this.#state = 'open'
    if (measureSeconds > 0) opened.measure(measureSeconds)
    if (opened.lostWith() !== 0) this.#state = 'lost'
  }

  createStream(): StreamId {
    const stream = this.#native?.createStream() ?? -1
    if (stream < 0 && this.#state === 'open') this.#noteLoss()
    return stream
  }

  wait(stream: StreamId, earlier: StreamId): void {
    if (stream >= 0 && earlier >= 0) this.#native?.wait(stream, earlier)
  }

  submit(stream: StreamId, batch: CopyBatch, done: Done): void {
    const native = this.#native
    if (native === null || stream < 0) {
      this.#refuse(done)
      return
    }
    const { direction, count, deviceOffsets, hostOffsets, lengths } = batch
    const isStore = direction === 'store' ? 1 : 0
    native.submit(this.#number(done), stream, isStore, 0, count, deviceOffsets, hostOffsets, lengths)
  }

  /** As `submit`, of blocks of a layout. The cost on this thread is a copy of the block ids. */
  submitPaged(stream: StreamId, batch: PagedBatch, done: Done): void {
    const native = this.#native
    if (native === null || stream < 0) {
      this.#refuse(done)
      return
    }
    const { direction, layout, blocks, blockCount, hostOffsets, shards } = batch
    const isStore = direction === 'store' ? 1 : 0
    native.submitPaged(this.#number(done), stream, isStore, layout, blocks, blockCount, hostOffsets, shards)
  }

  submitRuns(stream: StreamId, batch: RunBatch, done: Done): void {
    const native = this.#native
    if (native === null || stream < 0) {
      this.#refuse(done)
      return
    }
    const { direction, lists, count, firstBlocks, skipBytes, hostOffsets, rowBytes } = batch
    if (lists !== this.#lists) native.useBlocks(lists.next, lists.blockBytes)
    this.#lists = lists
    const isStore = direction === 'store' ? 1 : 0
    native.submitRuns(this.#number(done), stream, isStore, count, firstBlocks, skipBytes, hostOffsets, rowBytes)
  }

  /** Number of a layout; `pools[i]` is that of plane i. @throws CacheError BAD_REQUEST when one does not lie within its pool */
  addLayout(pools: readonly number[], { planes, blockStride, blockBytes }: PagedLayout): number {
    const made = this.#require().addLayout(Int32Array.from(pools), Float64Array.from(planes), blockStride, blockBytes)
    if (typeof made === 'string') throw new CacheError('BAD_REQUEST', `The layout cannot be used: ${made}.`)
    return made
  }

  /** The 64 bytes by which another process opens our pool. @throws CacheError DEVICE_FAULT */
  exportPool(): Uint8Array {
    const handle = this.#require().exportPool()
    if (typeof handle === 'string') throw this.#fault(`the pool cannot be shared: ${handle}`)
    return handle
  }

  /**
   * Opens a pool of another process: `bytes` from `offset` of the allocation that the handle names. The mapping keeps
   * that memory in place until `closePool`, also when its owner is gone.
   *
   * @returns number of the pool. @throws CacheError DEVICE_FAULT
   */
  importPool(handle: Uint8Array, offset: number, bytes: number): number {
    const pool = this.#require().importPool(handle, offset, bytes)
    this.#noteLoss()
    if (typeof pool === 'string') {
      throw new CacheError('DEVICE_UNAVAILABLE', `The handle of the pool cannot be opened: ${pool}.`, {
        field: 'ipc_handle',
      })
    }
    return pool
  }

  /** Gives back a pool of another process, after the transfers under way. Later ones fail. */
  closePool(pool: number, done: () => void = () => {}): void {
    if (this.#native === null) this.#refuse(done)
    else this.#native.closePool(this.#number(done), pool)
  }

  /** Puts `value` into a word of a pool, 8 bytes at `offset`, once all before it on the stream has ended. */
  signal(stream: StreamId, pool: number, offset: number, value: number): void {
    this.#native?.semaphore(1, stream, pool, offset, value)
  }

  /** Lets the stream go on once that word is at least `value`. Nothing ends the wait but that, or another `signal`. */
  waitForValue(stream: StreamId, pool: number, offset: number, value: number): void {
    this.#native?.semaphore(0, stream, pool, offset, value)
  }

  get sharesPools(): true {
    return true
  }

  /** What it has and did; of a closed device, when it was last asked. Null before `open`. */
  figures(): CudaFigures | null {
    if (this.#native !== null) this.#last = JSON.parse(this.#native.figures()) as CudaFigures
    return this.#last
  }

  /** For `/status`: what transfers cost, and what is locked in memory. */
  details(): object | null {
    const figures = this.figures()
    if (figures === null) return null
    const { table: _, ...rest } = figures
    return rest
  }

  close(): void {
    if (this.#state === 'closed') return
    const native = this.#native
    this.#state = 'closed'
    this.#native = null
    native?.close(this.#options.closeMs ?? CLOSE_MS)
    const error = this.#fault('the device is closed')
    let firstError: unknown
    for (const [id, done] of this.#done.entries()) {
      if (done === null) continue
      this.#done[id] = null
      this.#pending -= 1
      try {
        done(0, error)
      } catch (thrown) {
        firstError ??= thrown
      }
    }
    if (firstError !== undefined) throw firstError
  }

  #require(): CudaFunctions {
    if (this.#native === null || this.#state !== 'open') throw this.#fault(`the device is ${this.state}`)
    return this.#native
  }

  #number(done: Done): number {
    const id = this.#free.pop() ?? this.#done.length
    this.#done[id] = done
    this.#pending += 1
    return id
  }

  /** Hands on fences, each once, whatever one throws; the first exception is passed on. */
  #receive(count: number, lostWith: number): void {
    if (lostWith !== 0 && this.#state === 'open') this.#state = 'lost'
    let firstError: unknown
    for (let i = 0; i < count; i += 1) {
      const at = i * FENCE_WORDS
      const id = this.#mail[at]!
      const seconds = Math.max(this.#mail[at + 1]!, LEAST_SECONDS)
      const result = this.#mail[at + 2]!
      const done = this.#done[id]
      if (done === null || done === undefined) continue
      this.#done[id] = null
      this.#free.push(id)
      this.#pending -= 1
      try {
        if (result === 0) done(seconds, null)
        else done(0, this.#failure(result, this.#mail[at + 5]!))
      } catch (error) {
        firstError ??= error
      }
    }
    if (firstError !== undefined) throw firstError
  }

  #noteLoss(): void {
    if (this.#state === 'open' && this.#native !== null && this.#native.lostWith() !== 0) this.#state = 'lost'
  }

  /** Nobody but the event loop: a fence never comes before `submit` returns. */
  #refuse(done: Done): void {
    this.#pending += 1
    setImmediate(() => {
      this.#pending -= 1
      done(0, this.#fault(`the device is ${this.state}`))
    })
  }

  #failure(result: number, piece: number): CacheError {
    const name = this.#native?.nameOf(result) ?? 'closed'
    return this.#fault(piece < 0 ? name : `${name}, piece ${piece} lies outside of its memory`)
  }

  #fault(reason: string): CacheError {
    const { name } = this.info
    return new CacheError('DEVICE_FAULT', `A transfer of the device failed: ${reason}.`, {
      device: name,
      state: this.state,
    })
  }

  #openError({ step, reason, result }: CudaFailure, poolBytes: number): CacheError {
    const detail = { step, result, poolBytes }
    const code = step === 'pool' ? 'DEVICE_OUT_OF_MEMORY' : 'DEVICE_FAULT'
    const fix = step === 'pool' ? `: lower --l0-size (${poolBytes} bytes)` : ''
    return new CacheError(code, `The GPU ${this.info.name} cannot be used: ${reason}${fix}.`, detail)
  }
}
