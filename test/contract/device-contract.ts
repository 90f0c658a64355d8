import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { CopyBatch, Device, Direction } from '../../src/l0/device.ts'
import { random } from '../support/random.ts'

/** A device under test, not yet opened, and what the suite needs around it. */
export interface DeviceHarness {
  readonly device: Device
  readonly capacityBytes: number
  /** Host memory that the device can reach: plain bytes for a simulation, registered memory for a real GPU. */
  host(bytes: number): Uint8Array
  /** Returns once everything submitted has settled. */
  settle(): Promise<void>
}

/** A transfer's end, as the suite sees it. */
interface Outcome {
  settled: number
  busySeconds: number
  error: Error | null
}

const KIB = 1024

function batchOf(direction: Direction, copies: readonly (readonly [device: number, host: number, bytes: number])[]) {
  return {
    direction,
    count: copies.length,
    deviceOffsets: Float64Array.from(copies, ([device]) => device),
    hostOffsets: Float64Array.from(copies, ([, host]) => host),
    lengths: Float64Array.from(copies, ([, , bytes]) => bytes),
  } satisfies CopyBatch
}

function submit(device: Device, stream: number, batch: CopyBatch, onDone: () => void = () => {}): Outcome {
  const outcome: Outcome = { settled: 0, busySeconds: 0, error: null }
  device.submit(stream, batch, (busySeconds, error) => {
    outcome.settled += 1
    outcome.busySeconds = busySeconds
    outcome.error = error
    onDone()
  })
  return outcome
}

/** What every device does, seen through its port alone. Run it over each implementation. */
export function deviceContract(name: string, create: () => DeviceHarness): void {
  describe(`${name} as a device`, () => {
    let harness: DeviceHarness
    let device: Device

    beforeEach(() => {
      harness = create()
      device = harness.device
    })
    afterEach(() => device.close())

    it.each([1, 2, 3])('brings back through the pool what was loaded into it (seed %i)', async (seed) => {
      const next = random(seed)
      const host = harness.host(512 * KIB)
      device.open(256 * KIB, host)
      const stream = device.createStream()
      for (let i = 0; i < 256 * KIB; i += 1) host[i] = next(256)
      const places = Array.from({ length: 64 }, (_, i) => i).sort(() => next(3) - 1)
      const up = batchOf(
        'load',
        places.map((place, i) => [place * 4 * KIB, i * 4 * KIB, 4 * KIB] as const),
      )
      const down = batchOf(
        'store',
        places.map((place, i) => [place * 4 * KIB, (64 + i) * 4 * KIB, 4 * KIB] as const),
      )
      submit(device, stream, up)
      submit(device, stream, down)
      await harness.settle()
      expect(Buffer.compare(host.subarray(0, 256 * KIB), host.subarray(256 * KIB))).toBe(0)
    })

    it('shows the bytes of a store only once its fence has settled', async () => {
      const host = harness.host(64 * KIB)
      device.open(64 * KIB, host)
      const stream = device.createStream()
      host.fill(7, 0, KIB)
      const load = submit(device, stream, batchOf('load', [[0, 0, KIB]]))
      const store = submit(device, stream, batchOf('store', [[0, KIB, KIB]]))
      expect(load.settled).toBe(0)
      expect(store.settled).toBe(0)
      await harness.settle()
      expect(store).toMatchObject({ settled: 1, error: null })
      expect(host[KIB]).toBe(7)
    })

    it('lets the caller reuse the arrays of a batch after submit', async () => {
      const host = harness.host(64 * KIB)
      device.open(64 * KIB, host)
      const stream = device.createStream()
      host.fill(9, 0, KIB)
      const batch = batchOf('load', [[0, 0, KIB]])
      submit(device, stream, batch)
      batch.deviceOffsets[0] = 8 * KIB
      batch.lengths[0] = 1
      submit(device, stream, batchOf('store', [[0, 2 * KIB, KIB]]))
      await harness.settle()
      expect(host.subarray(2 * KIB, 3 * KIB).every((byte) => byte === 9)).toBe(true)
    })

    it('settles the batches of a stream in order, both directions alike', async () => {
      const host = harness.host(256 * KIB)
      device.open(256 * KIB, host)
      const stream = device.createStream()
      const order: number[] = []
      for (let i = 0; i < 8; i += 1) {
        const bytes = (8 - i) * 4 * KIB
        submit(device, stream, batchOf(i % 2 === 0 ? 'load' : 'store', [[0, 0, bytes]]), () => order.push(i))
      }
      await harness.settle()
      expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    })

    it('starts nothing on a stream before what it waits for has settled', async () => {
      const host = harness.host(256 * KIB)
      device.open(256 * KIB, host)
      const loads = device.createStream()
      const stores = device.createStream()
      const order: string[] = []
      host.fill(5, 0, 128 * KIB)
      submit(device, loads, batchOf('load', [[0, 0, 128 * KIB]]), () => order.push('load'))
      device.wait(stores, loads)
      submit(device, stores, batchOf('store', [[127 * KIB, 128 * KIB, KIB]]), () => order.push('store'))
      await harness.settle()
      expect(order).toEqual(['load', 'store'])
      expect(host[128 * KIB]).toBe(5)
    })

    it('tells a positive busy time for each of several batches, once each', async () => {
      const host = harness.host(256 * KIB)
      device.open(256 * KIB, host)
      const streams = [device.createStream(), device.createStream()]
      const outcomes = Array.from({ length: 10 }, (_, i) =>
        submit(device, streams[i % 2]!, batchOf(i % 2 === 0 ? 'load' : 'store', [[i * KIB, i * KIB, KIB]])),
      )
      await harness.settle()
      for (const outcome of outcomes) {
        expect(outcome).toMatchObject({ settled: 1, error: null })
        expect(outcome.busySeconds).toBeGreaterThan(0)
      }
    })

    it('takes a new batch from inside a fence', async () => {
      const host = harness.host(64 * KIB)
      device.open(64 * KIB, host)
      const stream = device.createStream()
      let second: Outcome | null = null
      submit(device, stream, batchOf('load', [[0, 0, KIB]]), () => {
        second = submit(device, stream, batchOf('store', [[0, KIB, KIB]]))
      })
      await harness.settle()
      expect(second).toMatchObject({ settled: 1, error: null })
    })

    it('refuses a pool larger than its memory', () => {
      const host = harness.host(KIB)
      expect(() => device.open(harness.capacityBytes * 2, host)).toThrow(
        expect.objectContaining({ code: 'DEVICE_OUT_OF_MEMORY' }),
      )
    })

    it('moves no byte and settles all the same when opened without host memory', async () => {
      device.open(64 * KIB, null)
      const stream = device.createStream()
      const outcome = submit(device, stream, batchOf('load', [[0, 2 ** 40, KIB]]))
      await harness.settle()
      expect(outcome).toMatchObject({ settled: 1, error: null })
    })

    it('fails what is pending when it closes, and what comes after', async () => {
      device.open(64 * KIB, harness.host(64 * KIB))
      const stream = device.createStream()
      const pending = submit(device, stream, batchOf('load', [[0, 0, KIB]]))
      device.close()
      expect(device.state).toBe('closed')
      expect(pending).toMatchObject({ settled: 1, error: { code: 'DEVICE_FAULT' } })
      const late = submit(device, stream, batchOf('load', [[0, 0, KIB]]))
      expect(late.settled).toBe(0)
      await harness.settle()
      expect(late).toMatchObject({ settled: 1, error: { code: 'DEVICE_FAULT' } })
    })

    it('says what it is', () => {
      device.open(64 * KIB, harness.host(KIB))
      expect(['cuda', 'simulated']).toContain(device.info.kind)
      expect(device.info.capacityBytes).toBe(harness.capacityBytes)
      expect(device.state).toBe('open')
    })
  })
}
