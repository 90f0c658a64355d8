import { expect, it } from 'vitest'
import { ManualClock } from '../../src/core/clock.ts'
import {
  DeviceTimelines,
  TIMELINE_FAILED,
  TIMELINES_MAX,
  type Timeline,
  WAIT_MS,
} from '../../src/engine/device-timelines.ts'
import { CudaDevice } from '../../src/l0/cuda-device.ts'
import type { StreamId } from '../../src/l0/device.ts'
import { probeCuda } from '../../src/native/cuda.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { openStandIn, standInDriver } from '../support/stand-in-driver.ts'

const WORDS = 4
const found = await standInDriver()
const needsDriver = skipUnless(typeof found !== 'string', String(found))

interface Rig {
  readonly device: CudaDevice
  readonly clock: ManualClock
  readonly timelines: DeviceTimelines
  readonly timeline: Timeline
  /** What a kernel of the other process would write. */
  write(word: number, value: number): void
  read(word: number): Promise<number>
  /** Bytes of other processes that are mapped. */
  mappedBytes(): number
}

/** A timeline on the device's own pool: the stand-in can let a process open its own handle. */
async function withRig(work: (rig: Rig) => Promise<void>): Promise<void> {
  if (typeof found === 'string') throw new Error(found)
  const standIn = openStandIn(found)
  standIn.control('revive')
  standIn.control('own 1')
  const driver = probeCuda(found.library)
  if (!driver.available) throw new Error(driver.reason)
  const device = new CudaDevice({ library: found.library, ordinal: 0 }, driver)
  const host = new Uint8Array(WORDS * 8)
  device.open(host.length, host)
  const stream: StreamId = device.createStream()
  const copy = (direction: 'store' | 'load') =>
    new Promise<void>((resolve) => {
      const at = Float64Array.of(0)
      const lengths = Float64Array.of(host.length)
      device.submit(stream, { direction, count: 1, deviceOffsets: at, hostOffsets: at, lengths }, () => resolve())
    })
  await copy('load')
  const clock = new ManualClock()
  const timelines = new DeviceTimelines(clock)
  const timeline = timelines.open(device, { handle: device.exportPool(), offset: 0, words: WORDS })
  try {
    await work({
      device,
      clock,
      timelines,
      timeline,
      write: (word, value) => device.signal(stream, 0, word * 8, value),
      read: async (word) => {
        await copy('store')
        return Number(new DataView(host.buffer).getBigUint64(word * 8, true))
      },
      mappedBytes: () => standIn.count('imported'),
    })
  } finally {
    timeline.close()
    device.close()
  }
  expect([standIn.count('imported'), standIn.count('allocated'), standIn.count('registered')]).toEqual([0, 0, 0])
}

/** Lets fences of the device's threads come. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

it('a wait ends when its word has its value, and not before', needsDriver, async () => {
  await withRig(async ({ device, timeline, write, read }) => {
    let isReached = false
    const wait = timeline.reached({ word: 1, value: 3 }).then(() => {
      isReached = true
    })
    write(1, 2)
    expect(await read(1)).toBe(2)
    await turn()
    expect([isReached, device.pending]).toEqual([false, 1])
    write(1, 3)
    await wait
    await timeline.reached({ word: 1, value: 3 })
  })
})

it(
  'a word that is never written is written by the engine in the end, and what waited is refused',
  needsDriver,
  async () => {
    await withRig(async ({ clock, timeline, read }) => {
      const wait = timeline.reached({ word: 0, value: 9 })
      const refused = expect(wait).rejects.toMatchObject({ code: 'DEVICE_TIMEOUT' })
      clock.advance(WAIT_MS)
      await refused
      expect(await read(0)).toBe(9)
    })
  },
)

it('waits end with the timeline, and at a stop of the engine: the device comes to rest', needsDriver, async () => {
  await withRig(async ({ timelines, timeline }) => {
    const first = expect(timeline.reached({ word: 2, value: 1 })).rejects.toMatchObject({ code: 'DEVICE_TIMEOUT' })
    timelines.endWaits()
    await first
    const second = expect(timeline.reached({ word: 3, value: 1 })).rejects.toMatchObject({ code: 'DEVICE_TIMEOUT' })
    timeline.close()
    await second
  })
})

it('a timeline is closed when its memory is not mapped any more', needsDriver, async () => {
  await withRig(async ({ timeline, mappedBytes }) => {
    const refused = expect(timeline.reached({ word: 2, value: 1 })).rejects.toMatchObject({ code: 'DEVICE_TIMEOUT' })
    const closed = timeline.close()
    expect(mappedBytes()).toBeGreaterThan(0)
    await closed
    await refused
    expect(mappedBytes()).toBe(0)
  })
})

it('a signal tells whether what it stands for went well', needsDriver, async () => {
  await withRig(async ({ device, timelines, timeline, read }) => {
    timeline.signal({ word: 0, value: 5 }, true)
    timeline.signal({ word: 1, value: 5 }, false)
    // Behind the signals, on their stream.
    const other = timelines.open(device, { handle: device.exportPool(), offset: 8, words: 1 })
    await other.reached({ word: 0, value: 5 })
    expect([await read(0), await read(1)]).toEqual([5, 5 + TIMELINE_FAILED])
    expect(() => timeline.check({ word: WORDS, value: 1 })).toThrow('4 words')
    other.close()
  })
})

it(
  'opens no more timelines than there are queues for, and the place of a closed one is free',
  needsDriver,
  async () => {
    await withRig(async ({ device, timelines }) => {
      const request = { handle: device.exportPool(), offset: 0, words: WORDS }
      const more = Array.from({ length: TIMELINES_MAX - 1 }, () => timelines.open(device, request))
      expect(() => timelines.open(device, request)).toThrow('16 processes have a timeline')
      more[0]!.close()
      more.push(timelines.open(device, request))
      for (const one of more) one.close()
    })
  },
)
