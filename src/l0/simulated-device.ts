import { assert } from '../core/assert.ts'
import type { Clock, Timer } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { copyRanges } from '../native/bulk-copy.ts'
import { CopyEngines, type Job } from './copy-engines.ts'
import type { CopyBatch, Device, DeviceInfo, StreamId } from './device.ts'
import { batchSeconds, type DeviceProfile } from './device-profiles.ts'

// state:  new --open--> open --a lost fault--> lost
//                         \----------close------\--> closed
// A transfer submitted to a device that is not open fails on the clock like any other, so that no caller needs a
// second way to hear of it.

/** A failure to come, counted from the moment it is injected. */
export interface DeviceFault {
  /** 1 = the next submit, 2 = the one after it, and so on. */
  readonly atSubmit: number
  /** `once`: that transfer fails. `lost`: it takes the device with it, for good. */
  readonly kind: 'once' | 'lost'
}

export interface SimulatedDeviceOptions {
  /** Memory of the device. A larger pool is refused. */
  readonly capacityBytes: number
  readonly profile: DeviceProfile
}

/** Bytes moved in one go: about 2 ms of this thread. More go on in the next timer. */
const SLICE_BYTES = 32 * 1024 ** 2

type Done = (busySeconds: number, error: Error | null) => void

interface Transfer extends Job {
  readonly done: Done
  readonly fault: DeviceFault['kind'] | null
  readonly batch: CopyBatch | null // null: no bytes to move
  /** Copies not yet moved whole, and bytes of the last of them already moved. */
  copiesLeft: number
  partBytes: number
}

interface Stream {
  /** Sequence of its last submit, 0 when there is none. */
  last: number
  /** What its next submit comes after. */
  after: number[]
}

/**
 * A stand-in for a GPU: transfers take the time of a profile on the injected clock, real bytes move in host memory,
 * and everything that shows `info` says that it is simulated. Bytes move when a transfer ends, last copy first, so a
 * caller that reads early or relies on an order inside a batch is found out. Times are the model's: `busySeconds`
 * says nothing about this machine.
 */
export class SimulatedDevice implements Device {
  readonly info: DeviceInfo
  readonly #clock: Clock
  readonly #profile: DeviceProfile
  readonly #engines: CopyEngines<Transfer>
  readonly #streams: Stream[] = []
  readonly #faults = new Map<number, DeviceFault['kind']>() // by sequence
  readonly #ended: Transfer[] = [] // ended in model time, fence not yet settled
  readonly #refused: Transfer[] = [] // submitted to a device that is not open
  readonly #slice = new CopySlice()
  #sequence = 0
  #state: 'new' | Device['state'] = 'new'
  #poolBytes = 0
  #memory: Uint8Array | null = null
  #host: Uint8Array | null = null
  #timer: Timer | null = null
  #timerDueMs = Number.POSITIVE_INFINITY

  constructor(options: SimulatedDeviceOptions, parts: { readonly clock: Clock }) {
    const { profile, capacityBytes } = options
    this.info = { kind: 'simulated', name: 'Simulated GPU', profile: profile.name, capacityBytes }
    this.#clock = parts.clock
    this.#profile = profile
    this.#engines = new CopyEngines(profile)
  }

  get state(): Device['state'] {
    return this.#state === 'new' ? 'closed' : this.#state
  }

  /** The pool's bytes, where a virtual inference server computes; null when metadata only. */
  get memory(): Uint8Array | null {
    return this.#memory
  }

  open(poolBytes: number, host: Uint8Array | null): void {
    assert(this.#state === 'new', 'device opened twice')
    const { capacityBytes } = this.info
    const detail = { field: 'capacityBytes', poolBytes, capacityBytes }
    if (poolBytes > capacityBytes) {
      const message = `The simulated device has ${capacityBytes} bytes, the L0 pool wants ${poolBytes}: lower --l0-size.`
      throw new CacheError('DEVICE_OUT_OF_MEMORY', message, detail)
    }
    if (host !== null) {
      try {
        this.#memory = new Uint8Array(poolBytes)
      } catch (cause) {
        const message = `This machine cannot back a simulated L0 pool of ${poolBytes} bytes: lower --l0-size.`
        throw new CacheError('DEVICE_OUT_OF_MEMORY', message, detail, cause)
      }
    }
    this.#host = host
    this.#poolBytes = poolBytes
    this.#state = 'open'
  }

  createStream(): StreamId {
    return this.#streams.push({ last: 0, after: [] }) - 1
  }

  wait(stream: StreamId, earlier: StreamId): void {
    const { last } = this.#stream(earlier)
    if (this.#engines.isPending(last)) this.#stream(stream).after.push(last)
  }

  submit(streamId: StreamId, batch: CopyBatch, done: Done): void {
    this.#check(batch)
    const stream = this.#stream(streamId)
    this.#sequence += 1
    const sequence = this.#sequence
    const transfer: Transfer = {
      sequence,
      way: batch.direction === 'store' ? 0 : 1,
      after: stream.last === 0 ? stream.after : [stream.last, ...stream.after],
      workSeconds: batchSeconds(this.#profile[batch.direction], batch.lengths, batch.count),
      busySeconds: 0,
      done,
      fault: this.#faults.get(sequence) ?? null,
      batch: this.#memory === null ? null : copyOf(batch),
      copiesLeft: batch.count,
      partBytes: 0,
    }
    this.#faults.delete(sequence)
    if (this.#state === 'open') {
      stream.last = sequence
      stream.after = []
      this.#engines.advance(this.#clock.nowMs(), this.#ended)
      this.#engines.push(transfer)
    } else {
      this.#refused.push(transfer)
    }
    this.#arm()
  }

  /** Arranges a failure. Several may be pending; two for one submit are one, the later injected. */
  inject(fault: DeviceFault): void {
    assert(fault.atSubmit >= 1, 'fault in the past')
    this.#faults.set(this.#sequence + fault.atSubmit, fault.kind)
  }

  close(): void {
    if (this.#state === 'closed') return
    this.#state = 'closed'
    this.#timer?.cancel()
    this.#timer = null
    this.#timerDueMs = Number.POSITIVE_INFINITY
    this.#memory = null
    this.#host = null
    this.#failPending()
    this.#settleAll()
  }

  #stream(id: StreamId): Stream {
    const stream = this.#streams[id]
    assert(stream !== undefined, 'unknown stream')
    return stream
  }

  #check(batch: CopyBatch): void {
    const hostBytes = this.#host?.length ?? Number.POSITIVE_INFINITY
    for (let copy = 0; copy < batch.count; copy += 1) {
      const length = batch.lengths[copy]!
      const deviceOffset = batch.deviceOffsets[copy]!
      const hostOffset = batch.hostOffsets[copy]!
      assert(length > 0 && deviceOffset >= 0 && hostOffset >= 0, 'copy of a broken range')
      assert(this.#state !== 'open' || deviceOffset + length <= this.#poolBytes, 'copy beyond the device pool')
      assert(hostOffset + length <= hostBytes, 'copy beyond the host memory')
    }
  }

  /** One timer for whatever settles next; all that ended by then settles in it. */
  #arm(): void {
    const nowMs = this.#clock.nowMs()
    const isDue = this.#ended.length + this.#refused.length > 0
    const dueMs = isDue ? nowMs : this.#engines.nextEndMs()
    if (this.#timerDueMs <= dueMs || dueMs === Number.POSITIVE_INFINITY) return
    this.#timer?.cancel()
    this.#timerDueMs = dueMs
    this.#timer = this.#clock.schedule(Math.max(0, dueMs - nowMs), () => this.#onTimer())
  }

  #onTimer(): void {
    this.#timer = null
    this.#timerDueMs = Number.POSITIVE_INFINITY
    this.#engines.advance(this.#clock.nowMs(), this.#ended)
    try {
      this.#settleAll()
    } finally {
      this.#arm()
    }
  }

  /**
   * Settles ended transfers in order, each once, whatever its fence throws; the first exception is passed on. Stops
   * when a slice of bytes is used up.
   */
  #settleAll(): void {
    let firstError: unknown
    let sliceBytes = SLICE_BYTES
    for (const queue of [this.#ended, this.#refused]) {
      // What a fence submits here is not settled here: it waits for its own timer.
      for (let left = queue.length; left > 0 && queue.length > 0; left -= 1) {
        const transfer = queue[0]!
        if (this.#state === 'open' && transfer.batch !== null) {
          sliceBytes = this.#move(transfer, transfer.batch, sliceBytes)
          if (sliceBytes < 0) break
        }
        queue.shift()
        try {
          this.#settle(transfer)
        } catch (error) {
          firstError ??= error
        }
      }
    }
    if (firstError !== undefined) throw firstError
  }

  #settle(transfer: Transfer): void {
    if (this.#state !== 'open') {
      transfer.done(transfer.busySeconds, this.#faultError(`the device is ${this.#state}`))
      return
    }
    if (transfer.fault === 'lost') {
      this.#state = 'lost'
      this.#failPending()
    }
    const error = transfer.fault === null ? null : this.#faultError(`injected fault (${transfer.fault})`)
    transfer.done(transfer.busySeconds, error)
  }

  /** Hands every transfer that has not ended to the next settling, where the state makes it fail. */
  #failPending(): void {
    this.#ended.push(...this.#engines.drop())
  }

  /**
   * Moves bytes of a transfer, last copy first, at most `sliceBytes`. One that fails stops half way: it is torn.
   *
   * @returns what is left of the slice; -1 when it was too short, and the rest is for another call.
   */
  #move(transfer: Transfer, batch: CopyBatch, sliceBytes: number): number {
    const memory = this.#memory!
    const host = this.#host!
    const until = transfer.fault === null ? 0 : batch.count >> 1
    const slice = this.#slice
    slice.clear(batch.count)
    let left = sliceBytes
    while (transfer.copiesLeft > until && left > 0) {
      const copy = transfer.copiesLeft - 1
      const bytes = Math.min(left, batch.lengths[copy]! - transfer.partBytes)
      const onDevice = batch.deviceOffsets[copy]! + transfer.partBytes
      const onHost = batch.hostOffsets[copy]! + transfer.partBytes
      slice.push(onDevice, onHost, bytes)
      left -= bytes
      transfer.partBytes += bytes
      if (transfer.partBytes < batch.lengths[copy]!) continue
      transfer.copiesLeft = copy
      transfer.partBytes = 0
    }
    const { onDevice, onHost, lengths, count } = slice
    if (batch.direction === 'store') copyRanges(host, memory, onHost, onDevice, lengths, count)
    else copyRanges(memory, host, onDevice, onHost, lengths, count)
    return transfer.copiesLeft > until ? -1 : left
  }

  #faultError(reason: string): CacheError {
    return new CacheError('DEVICE_FAULT', `A transfer of the simulated device failed: ${reason}.`, {
      device: this.info.name,
      state: this.#state,
    })
  }
}

/** The copies of one slice. */
class CopySlice {
  onDevice = new Float64Array(64)
  onHost = new Float64Array(64)
  lengths = new Float64Array(64)
  count = 0

  /** @param most copies that may come. */
  clear(most: number): void {
    this.count = 0
    if (most <= this.lengths.length) return
    const capacity = Math.max(most, 2 * this.lengths.length)
    this.onDevice = new Float64Array(capacity)
    this.onHost = new Float64Array(capacity)
    this.lengths = new Float64Array(capacity)
  }

  push(onDevice: number, onHost: number, bytes: number): void {
    this.onDevice[this.count] = onDevice
    this.onHost[this.count] = onHost
    this.lengths[this.count] = bytes
    this.count += 1
  }
}

function copyOf(batch: CopyBatch): CopyBatch {
  const { direction, count } = batch
  return {
    direction,
    count,
    deviceOffsets: batch.deviceOffsets.slice(0, count),
    hostOffsets: batch.hostOffsets.slice(0, count),
    lengths: batch.lengths.slice(0, count),
  }
}
