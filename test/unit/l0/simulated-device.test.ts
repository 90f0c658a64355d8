import { describe, expect, it } from 'vitest'
import { ManualClock, SystemClock } from '../../../src/core/clock.ts'
import type { Direction } from '../../../src/l0/device.ts'
import { batchSeconds, type DeviceProfile, FAST, H100_PCIE5, INSTANT } from '../../../src/l0/device-profiles.ts'
import { SimulatedDevice } from '../../../src/l0/simulated-device.ts'
import { random } from '../../support/random.ts'

const KIB = 1024
const MIB = 1024 ** 2

function openDevice(profile: DeviceProfile, hasBytes = false, clock = new ManualClock()) {
  const device = new SimulatedDevice({ capacityBytes: 64 * MIB, profile }, { clock })
  const host = hasBytes ? new Uint8Array(4 * MIB) : null
  device.open(hasBytes ? 4 * MIB : 64 * MIB, host)
  const log: { name: string; atMs: number; busySeconds: number; error: Error | null }[] = []
  const startMs = clock.nowMs()
  const submit = (name: string, stream: number, direction: Direction, lengths: number[], deviceOffset = 0) => {
    const offsets = Float64Array.from(lengths, (_, i) => deviceOffset + lengths.slice(0, i).reduce((a, b) => a + b, 0))
    const batch = { direction, count: lengths.length, deviceOffsets: offsets, hostOffsets: offsets }
    device.submit(stream, { ...batch, lengths: Float64Array.from(lengths) }, (busySeconds, error) => {
      log.push({ name, atMs: clock.nowMs() - startMs, busySeconds, error })
    })
  }
  return { device, clock, host, log, submit }
}

const gigabytesPerSecond = (piece: number, pieces: number) => {
  const lengths = new Float64Array(pieces).fill(piece)
  return (piece * pieces) / batchSeconds(H100_PCIE5.load, lengths, pieces) / 1e9
}

describe('the h100-pcie5 profile', () => {
  it('keeps to the published curve, with its cliff below 28 KiB', () => {
    expect(gigabytesPerSecond(4 * KIB, 4096)).toBeCloseTo(4, 0)
    expect(gigabytesPerSecond(16 * KIB, 4096)).toBeCloseTo(7, 0)
    expect(gigabytesPerSecond(28 * KIB - 1, 4096)).toBeLessThan(9)
    expect(gigabytesPerSecond(28 * KIB, 4096)).toBeCloseTo(27, 0)
    expect(gigabytesPerSecond(160 * KIB, 4096)).toBeCloseTo(44, 0)
    expect(gigabytesPerSecond(MIB, 1024)).toBeCloseTo(50, 0)
  })

  it('moves 83 GB/s with both directions busy', () => {
    const { clock, log, submit, device } = openDevice(H100_PCIE5)
    const pieces = new Array(32).fill(MIB)
    submit('store', device.createStream(), 'store', pieces)
    submit('load', device.createStream(), 'load', pieces)
    clock.advance(1000)
    expect((64 * MIB) / (log[1]!.atMs / 1000) / 1e9).toBeCloseTo(83, -1)
    expect(log[0]!.busySeconds).toBeCloseTo(log[0]!.atMs / 1000, 9)
  })

  it('gives a direction its full speed back when the other falls idle', () => {
    const { clock, log, submit, device } = openDevice({ ...FAST, bothWaysRatio: 0.5 })
    submit('short', device.createStream(), 'store', [1000])
    submit('long', device.createStream(), 'load', [3_000_000])
    clock.advance(1000)
    // 11.01 us of work at half speed; the load then does the rest of its 41 us alone.
    expect(log.map(({ name }) => name)).toEqual(['short', 'long'])
    expect(log[0]!.atMs).toBeCloseTo(0.02202, 6)
    expect(log[1]!.atMs).toBeCloseTo(0.041 + 0.01101, 6)
  })
})

describe('SimulatedDevice', () => {
  it('works a direction in order of submission, whatever the stream', () => {
    const { clock, log, submit, device } = openDevice(FAST)
    submit('long', device.createStream(), 'load', [10_000_000])
    submit('short', device.createStream(), 'load', [1000])
    clock.advance(1000)
    expect(log.map(({ name }) => name)).toEqual(['long', 'short'])
    expect(log[1]!.atMs).toBeCloseTo(0.111 + 0.01101, 6)
    expect(log[1]!.busySeconds).toBeCloseTo(11.01e-6, 9)
  })

  it('settles what ended together in one timer, and holds none when idle', () => {
    const { clock, log, submit, device } = openDevice(INSTANT)
    for (let i = 0; i < 100; i += 1) submit(`${i}`, device.createStream(), i % 2 === 0 ? 'load' : 'store', [1000])
    const timers: number[] = []
    while (clock.nextDueMs() < Number.POSITIVE_INFINITY) {
      timers.push(clock.nextDueMs())
      clock.advanceTo(clock.nextDueMs())
    }
    expect(timers).toHaveLength(1)
    expect(log).toHaveLength(100)
  })

  it('loses no throughput to a timer that fires late', () => {
    const { clock, log, submit, device } = openDevice(FAST)
    const stream = device.createStream()
    const schedule = clock.schedule.bind(clock)
    clock.schedule = (delayMs, callback) => schedule(Math.max(1, delayMs), callback)
    for (let i = 0; i < 50; i += 1) submit(`${i}`, stream, 'load', [1000])
    clock.advance(1.5)
    expect(log).toHaveLength(50) // 50 x 11 us of model time, all within the first late timer
  })

  it('ends every transfer on the real clock too', async () => {
    const { log, submit, device } = openDevice(FAST, true, new SystemClock() as unknown as ManualClock)
    const stream = device.createStream()
    await new Promise<void>((resolve) => {
      for (let i = 0; i < 20; i += 1) submit(`${i}`, stream, i % 3 === 0 ? 'load' : 'store', [1000])
      device.submit(stream, batch([0, 0, 8]), () => resolve())
      setTimeout(() => {}, 20) // the device's own timers do not keep the process alive
    })
    expect(log).toHaveLength(20)
  })

  it('makes progress however coarse the clock is by then', () => {
    const { clock, log, submit, device } = openDevice(H100_PCIE5, false, new ManualClock(2 ** 45 + 0.1))
    const stream = device.createStream()
    for (let i = 0; i < 100; i += 1) submit(`${i}`, stream, i % 3 === 0 ? 'load' : 'store', [4 * KIB + i])
    for (let i = 0; i < 1000 && log.length < 100; i += 1) clock.advance(1)
    expect(log).toHaveLength(100)
  })

  it('moves a large batch in slices, and settles it once all of it is there', () => {
    const clock = new ManualClock()
    const device = new SimulatedDevice({ capacityBytes: 80 * MIB, profile: INSTANT }, { clock })
    const host = new Uint8Array(80 * MIB).fill(3)
    device.open(80 * MIB, host)
    const stream = device.createStream()
    let ended = 0
    const offsets = Float64Array.from([0, 50 * MIB])
    const lengths = Float64Array.from([50 * MIB, 30 * MIB])
    device.submit(
      stream,
      { direction: 'load', count: 2, deviceOffsets: offsets, hostOffsets: offsets, lengths },
      () => {
        ended += 1
        expect(Buffer.compare(device.memory!, host)).toBe(0)
      },
    )
    const schedule = clock.schedule.bind(clock)
    let timers = 0
    clock.schedule = (delayMs, callback) => {
      timers += 1
      return schedule(delayMs, callback)
    }
    clock.advance(0)
    expect(ended).toBe(1)
    expect(timers).toBe(2)
  })

  it('does not start a batch whose range leaves the pool', () => {
    const { submit, device } = openDevice(FAST, true)
    expect(() => submit('far', device.createStream(), 'load', [KIB], 4 * MIB)).toThrow('beyond the device pool')
  })

  it('says in its info that it is simulated', () => {
    const { device } = openDevice(FAST)
    expect(device.info).toEqual({
      kind: 'simulated',
      name: 'Simulated GPU',
      profile: 'fast',
      capacityBytes: 64 * MIB,
    })
  })
})

describe('a fault of the simulated device', () => {
  it('fails the transfer that it was injected for and no other', () => {
    const { clock, log, submit, device } = openDevice(FAST, true)
    device.inject({ atSubmit: 1, kind: 'once' })
    device.inject({ atSubmit: 3, kind: 'once' })
    const stream = device.createStream()
    for (const name of ['a', 'b', 'c', 'd']) submit(name, stream, 'load', [KIB])
    clock.advance(1000)
    expect(log.map(({ error }) => error !== null)).toEqual([true, false, true, false])
    expect(log[0]!.error).toMatchObject({ code: 'DEVICE_FAULT', detail: { state: 'open' } })
    expect(device.state).toBe('open')
  })

  it('takes the device with it when it is of the lost kind: everything pending and later fails', () => {
    const { clock, log, submit, device } = openDevice(FAST, true)
    const streams = [device.createStream(), device.createStream()]
    device.inject({ atSubmit: 2, kind: 'lost' })
    for (let i = 0; i < 6; i += 1) submit(`${i}`, streams[i % 2]!, i % 2 === 0 ? 'load' : 'store', [KIB + i])
    clock.advance(1000)
    expect(device.state).toBe('lost')
    submit('late', streams[0]!, 'load', [KIB])
    clock.advance(1000)
    expect(log).toHaveLength(7)
    expect(log.filter(({ error }) => error === null).map(({ name }) => name)).toEqual(['0'])
    device.close()
    expect(device.state).toBe('closed')
    expect(log).toHaveLength(7)
  })

  it('leaves garbage at the target of a failed batch, not the old bytes and not the new', () => {
    const { clock, submit, device, host } = openDevice(FAST, true)
    const stream = device.createStream()
    host!.fill(1, 0, 4 * KIB)
    device.inject({ atSubmit: 1, kind: 'once' })
    submit('torn', stream, 'load', [KIB, KIB, KIB, KIB])
    clock.advance(1000)
    const bytes = device.memory!.subarray(0, 4 * KIB)
    expect(bytes.includes(1)).toBe(true)
    expect(bytes.includes(0)).toBe(true)
  })

  it('in a fence keeps no other fence from settling', () => {
    const { clock, log, submit, device } = openDevice(INSTANT)
    const stream = device.createStream()
    device.submit(stream, batch([0, 0, 8]), () => {
      throw new Error('a fence that throws')
    })
    submit('after', stream, 'load', [8])
    expect(() => clock.advance(1)).toThrow('a fence that throws')
    clock.advance(1)
    expect(log.map(({ name }) => name)).toEqual(['after'])
  })
})

it.each([1, 2, 3, 4])('every transfer settles exactly once, each stream in order (seed %i)', (seed) => {
  const next = random(seed)
  const { clock, device } = openDevice([H100_PCIE5, FAST, INSTANT, H100_PCIE5][seed - 1]!)
  const streams = Array.from({ length: 4 }, () => device.createStream())
  const settled = streams.map((): number[] => [])
  const submitted = streams.map(() => 0)
  for (let step = 0; step < 2000; step += 1) {
    const way = next(streams.length)
    if (next(5) === 0) device.wait(streams[way]!, streams[next(streams.length)]!)
    const number = submitted[way]!
    submitted[way] = number + 1
    const direction = next(2) === 0 ? 'load' : 'store'
    device.submit(streams[way]!, batch([0, 0, 1 + next(MIB)], direction), () => settled[way]!.push(number))
    if (next(3) === 0) clock.advance(next(100) / 1000)
    if (step === 1500 && seed === 4) device.inject({ atSubmit: 3, kind: 'lost' })
  }
  clock.advance(60_000)
  expect(settled).toEqual(submitted.map((count) => Array.from({ length: count }, (_, i) => i)))
})

function batch([device, host, length]: [number, number, number], direction: Direction = 'load') {
  const of = (value: number) => new Float64Array([value])
  return { direction, count: 1, deviceOffsets: of(device), hostOffsets: of(host), lengths: of(length) }
}
