import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { CudaDevice } from '../../src/l0/cuda-device.ts'
import type { CopyBatch, Direction } from '../../src/l0/device.ts'
import { findAddon } from '../../src/native/addon-files.ts'
import { probeCuda } from '../../src/native/cuda.ts'
import { missingSanitizer, stressCuda } from '../support/cuda-stress.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { openStandIn, standInDriver } from '../support/stand-in-driver.ts'
import { until } from '../support/until.ts'

const MIB = 1024 ** 2
const KIB = 1024
const found = await standInDriver()
const standIn = typeof found === 'string' ? null : openStandIn(found)
const needsDriver = skipUnless(standIn !== null, String(found))

/** An open device of 1 MiB on the stand-in, and its host memory. */
function openDevice({ library }: { library: string }) {
  const driver = probeCuda(library)
  if (!driver.available) throw new Error(driver.reason)
  const device = new CudaDevice({ library, ordinal: 0 }, driver)
  const host = new Uint8Array(MIB)
  device.open(MIB, host)
  return { device, host }
}

function batchOf(direction: Direction, pieces: number): CopyBatch {
  const offsets = Float64Array.from({ length: pieces }, (_, i) => (pieces - 1 - i) * KIB)
  const hostOffsets = Float64Array.from({ length: pieces }, (_, i) => i * KIB)
  return { direction, count: pieces, deviceOffsets: offsets, hostOffsets, lengths: new Float64Array(pieces).fill(KIB) }
}

const LEFT = ['allocated', 'registered', 'streams', 'events', 'modules', 'imported', 'contexts']

function expectNothingLeft(): void {
  expect(Object.fromEntries(LEFT.map((name) => [name, standIn!.count(name)]))).toEqual(
    Object.fromEntries(LEFT.map((name) => [name, 0])),
  )
}

it('wakes the data thread once for many fences', needsDriver, async () => {
  standIn!.control('revive')
  const { device } = openDevice(standIn!)
  try {
    const stream = device.createStream()
    standIn!.control('hold 1')
    let settled = 0
    for (let i = 0; i < 2_000; i += 1) device.submit(stream, batchOf('load', 4), () => (settled += 1))
    standIn!.control('hold 0')
    // This thread is away until all copies are done: the fences wait for it together.
    const before = standIn!.count('copies') + standIn!.count('batches') + standIn!.count('launches')
    expect(before).toBeGreaterThan(0)
    await until('all fences', () => (device.pending === 0 ? true : undefined))
    expect(settled).toBe(2_000)
    expect(device.figures()!.wakes).toBeLessThan(1_000)
  } finally {
    standIn!.control('hold 0')
    device.close()
  }
  expectNothingLeft()
})

it(
  'loses what is pending and what comes when the context ends, and frees everything at close',
  needsDriver,
  async () => {
    standIn!.control('revive')
    const { device } = openDevice(standIn!)
    try {
      const stream = device.createStream()
      standIn!.control('hold 1')
      const errors: (string | null)[] = []
      const submit = () => device.submit(stream, batchOf('store', 8), (_, error) => errors.push(error?.message ?? null))
      for (let i = 0; i < 10; i += 1) submit()
      standIn!.control('fail cuEventSynchronize 1 700')
      standIn!.control('hold 0')
      submit()
      await until('all fences', () => (device.pending === 0 ? true : undefined))
      expect(errors).toHaveLength(11)
      expect(device.state).toBe('lost')
      expect(errors.at(-1)).toContain('CUDA_ERROR_ILLEGAL_ADDRESS (700)')
      submit()
      await until('the late fence', () => (device.pending === 0 ? true : undefined))
      expect(errors.at(-1)).toContain('(700)')
      expect(device.createStream()).toBe(-1)
    } finally {
      device.close()
    }
    expectNothingLeft()
  },
)

it(
  'loses a device whose streams cannot be put in order: nothing overtakes what it was to wait for',
  needsDriver,
  async () => {
    standIn!.control('revive')
    const { device } = openDevice(standIn!)
    try {
      const [stores, loads] = [device.createStream(), device.createStream()]
      const errors: (string | null)[] = []
      const submit = (stream: number, direction: Direction) =>
        device.submit(stream, batchOf(direction, 8), (_, error) => errors.push(error?.message ?? null))
      submit(stores, 'store')
      standIn!.control('fail cuStreamWaitEvent 1 2')
      device.wait(loads, stores)
      for (let i = 0; i < 3; i += 1) submit(loads, 'load')
      await until('all fences', () => (device.pending === 0 ? true : undefined))
      expect(errors.slice(1)).toEqual(new Array(3).fill(expect.stringContaining('(2)')))
      expect(device.state).toBe('lost')
    } finally {
      device.close()
    }
    expectNothingLeft()
  },
)

it('does without a way to copy that fails, from then on, and says so', needsDriver, async () => {
  standIn!.control('revive')
  const { device, host } = openDevice(standIn!)
  try {
    const stream = device.createStream()
    const errors: (Error | null)[] = []
    const submit = (direction: Direction) =>
      device.submit(stream, batchOf(direction, 64), (_, error) => errors.push(error))
    host.fill(7)
    standIn!.control('fail cuMemcpyBatchAsync 1 801')
    submit('load')
    submit('load')
    await until('both fences', () => (errors.length === 2 ? true : undefined))
    host.fill(0)
    submit('store')
    await until('the store', () => (errors.length === 3 ? true : undefined))
    expect(errors).toEqual([null, null, null])
    expect(host.subarray(0, 64 * KIB).every((byte) => byte === 7)).toBe(true)
    const [loop, batch] = device.figures()!.methods
    expect(loop).toMatchObject({ transfers: 3 })
    expect(batch).toMatchObject({ available: false, reason: expect.stringContaining('it failed'), transfers: 0 })
  } finally {
    device.close()
  }
  expectNothingLeft()
})

it(
  'says that a pool is closed when the copies under way have ended and it is not mapped any more',
  needsDriver,
  async () => {
    standIn!.control('revive')
    standIn!.control('own 1')
    const { device } = openDevice(standIn!)
    try {
      const pool = device.importPool(device.exportPool(), 0, KIB)
      const stream = device.createStream()
      standIn!.control('hold 1')
      const ended: string[] = []
      device.submit(stream, batchOf('load', 4), () => ended.push('copy'))
      device.closePool(pool, () => ended.push(`pool, with ${standIn!.count('imported')} bytes mapped`))
      device.closePool(pool, () => ended.push('pool that is closed already'))
      await until('the refused close', () => (ended.length === 1 ? true : undefined))
      expect(standIn!.count('imported')).toBeGreaterThan(0)
      standIn!.control('hold 0')
      await until('both', () => (device.pending === 0 ? true : undefined))
      expect(ended).toEqual(['pool that is closed already', 'copy', 'pool, with 0 bytes mapped'])
    } finally {
      standIn!.control('hold 0')
      standIn!.control('own 0')
      device.close()
    }
    expectNothingLeft()
  },
)

it('opens no handle of its own process, and says why; the device goes on', needsDriver, async () => {
  standIn!.control('revive')
  standIn!.control('own 0')
  const { device } = openDevice(standIn!)
  try {
    expect(() => device.importPool(device.exportPool(), 0, KIB)).toThrow('this very process')
    expect(device.state).toBe('open')
    // As a driver does, for a handle that is open already: the same mapping, which goes with the last of them.
    standIn!.control('own 1')
    const pools = [0, 1].map(() => device.importPool(device.exportPool(), 0, KIB))
    expect(standIn!.count('imported')).toBe(MIB)
    device.closePool(pools[0]!)
    await until('one is closed', () => (device.figures()!.importedPools === 1 ? true : undefined))
    expect(standIn!.count('imported')).toBe(MIB)
  } finally {
    standIn!.control('own 0')
    device.close()
  }
  expectNothingLeft()
})

it(
  'fails one transfer for an error that the context outlives, after its copies have stopped',
  needsDriver,
  async () => {
    standIn!.control('revive')
    const { library } = standIn!
    const driver = probeCuda(library)
    if (!driver.available) throw new Error(driver.reason)
    const device = new CudaDevice({ library, ordinal: 0, methods: ['loop'] }, driver)
    device.open(MIB, new Uint8Array(MIB))
    try {
      const stream = device.createStream()
      const outcomes: (string | null)[] = []
      standIn!.control('fail cuMemcpyHtoDAsync 6 2')
      for (let i = 0; i < 3; i += 1) {
        device.submit(stream, batchOf('load', 4), (_, error) => outcomes.push(error?.message ?? null))
      }
      await until('all fences', () => (device.pending === 0 ? true : undefined))
      expect(outcomes).toEqual([null, expect.stringContaining('OUT_OF_MEMORY (2)'), null])
      expect(device.state).toBe('open')
    } finally {
      device.close()
    }
    expectNothingLeft()
  },
)

it('refuses copies beyond the pool and the host memory, and goes on', needsDriver, async () => {
  standIn!.control('revive')
  const { device } = openDevice(standIn!)
  try {
    const stream = device.createStream()
    const outcomes: boolean[] = []
    const ranges: [device: number, host: number, bytes: number][] = [
      [MIB - KIB, 0, 2 * KIB],
      [0, MIB - KIB, 2 * KIB],
      [-1, 0, KIB],
      [0, 0.5, KIB],
      [0, 0, 0],
      [2 ** 60, 0, KIB],
      [0, 0, KIB],
    ]
    for (const [at, host, bytes] of ranges) {
      const [deviceOffsets, hostOffsets, lengths] = [at, host, bytes].map((one) => Float64Array.of(one))
      const batch = { direction: 'load', count: 1, deviceOffsets, hostOffsets, lengths } as CopyBatch
      device.submit(stream, batch, (_, error) => outcomes.push(error === null))
    }
    await until('all fences', () => (device.pending === 0 ? true : undefined))
    expect(outcomes).toEqual([false, false, false, false, false, false, true])
    expect(standIn!.count('violations')).toBe(0)
  } finally {
    device.close()
  }
})

it('names the piece, the block or the row that lies outside of its memory, and goes on', needsDriver, async () => {
  standIn!.control('revive')
  const { device } = openDevice(standIn!)
  try {
    const stream = device.createStream()
    const messages: string[] = []
    const done = (_: number, error: Error | null) => messages.push(error?.message ?? 'fine')
    const batch = batchOf('load', 5)
    batch.hostOffsets[3] = MIB
    device.submit(stream, batch, done)
    const layout = device.addLayout([0, 0], { planes: [0, MIB / 2], blockStride: KIB, blockBytes: KIB })
    const hostOffsets = Float64Array.of(0, 8 * KIB)
    const paged = { direction: 'load', layout, blockCount: 4, hostOffsets, shards: 2 } as const
    device.submitPaged(stream, { ...paged, blocks: Int32Array.of(0, 1, 512, 3) }, done)
    device.submitPaged(stream, { ...paged, blocks: Int32Array.of(0, 1, 511, -1) }, done)
    // Blocks 0 -> 2 -> 4, 1 -> 3, and one that names a block that is not there.
    const lists = { next: Int32Array.of(2, 3, 4, -1, -1, 6), blockBytes: KIB }
    const rows = (firstBlocks: number[], skipped: number, rowBytes: number) => ({
      direction: 'store' as const,
      count: firstBlocks.length,
      lists,
      firstBlocks: Int32Array.from(firstBlocks),
      skipBytes: new Float64Array(firstBlocks.length).fill(skipped),
      hostOffsets: Float64Array.from(firstBlocks, (_, row) => row * 4 * KIB),
      rowBytes,
    })
    device.submitRuns(stream, rows([0, 1], 0, 2 * KIB), done)
    device.submitRuns(stream, rows([0, 1], 0, 2 * KIB + 1), done) // the second list is too short
    device.submitRuns(stream, rows([0, 1], 1024.5, KIB), done)
    device.submitRuns(stream, rows([0, 1, 5], 2, KIB), done)
    device.submitRuns(stream, rows([1, -1], 0, KIB), done)
    device.submitRuns(stream, rows([6], 0, KIB), done)
    device.submitRuns(stream, rows([0], 2 ** 53 - 1, KIB), done)
    await until('all fences', () => (device.pending === 0 ? true : undefined))
    const pieces = messages.map((message) => /piece (\d+)/.exec(message)?.[1] ?? message)
    expect(pieces).toEqual(['3', '2', '3', 'fine', '1', '0', '2', '1', '0', '0'])
    expect(standIn!.count('violations')).toBe(0)
    expect(device.state).toBe('open')
  } finally {
    device.close()
  }
  expectNothingLeft()
})

it('lets a stream wait for a word of device memory that another stream sets', needsDriver, async () => {
  standIn!.control('revive')
  const { device } = openDevice(standIn!)
  try {
    const waiting = device.createStream()
    const other = device.createStream()
    const order: string[] = []
    const copy = (stream: number, name: string) => device.submit(stream, batchOf('load', 1), () => order.push(name))
    const word = MIB - 8
    device.signal(other, 0, word, 1)
    copy(other, 'set to 1') // the pool starts with anything
    await until('the first', () => (device.pending === 0 ? true : undefined))
    device.waitForValue(waiting, 0, word, 1)
    copy(waiting, 'after 1')
    await until('the wait for what is there', () => (device.pending === 0 ? true : undefined))
    device.signal(other, 0, word, 2)
    device.waitForValue(waiting, 0, word, 3)
    copy(waiting, 'after 3')
    copy(other, 'after 2')
    await until('the second', () => (order.length === 3 ? true : undefined))
    expect(device.pending).toBe(1)
    device.signal(other, 0, word, 3)
    await until('the third', () => (device.pending === 0 ? true : undefined))
    expect(order).toEqual(['set to 1', 'after 1', 'after 2', 'after 3'])
    device.waitForValue(waiting, 0, MIB, 1)
    let failed: string | undefined
    device.submit(waiting, batchOf('load', 1), (_, error) => (failed = error?.message))
    await until('the refusal', () => (device.pending === 0 ? true : undefined))
    expect(failed).toContain('(1)')
  } finally {
    device.close()
  }
  expectNothingLeft()
})

it('leaves the memory to a device that does not come to rest, and closes all the same', needsDriver, async () => {
  standIn!.control('revive')
  const driver = probeCuda(standIn!.library)
  if (!driver.available) throw new Error(driver.reason)
  const device = new CudaDevice({ library: standIn!.library, ordinal: 0, closeMs: 200 }, driver)
  device.open(MIB, new Uint8Array(MIB))
  const stream = device.createStream()
  standIn!.control('hold 1')
  const errors: (string | undefined)[] = []
  device.submit(stream, batchOf('load', 4), (_, error) => errors.push(error?.message))
  await until('it is on the stream', () => (standIn!.count('events') > 0 ? true : undefined))
  device.close()
  expect(errors).toEqual([expect.stringContaining('closed')])
  expect(standIn!.count('registered')).toBeGreaterThan(0)
  standIn!.control('hold 0')
})

const THROWING = `
import { createRequire } from 'node:module'
const [addon, library] = process.argv.slice(1)
const heard = []
process.on('uncaughtException', (error) => heard.push(error.message))
const device = createRequire(addon)(addon).cudaOpen(library, 0, 4096, new Uint8Array(4096), 1, new Float64Array(6), () => {
  Promise.resolve().then(() => heard.push('a microtask'))
  process.nextTick(() => heard.push('a tick'))
  throw new Error('thrown')
})
const stream = device.createStream()
for (let id = 0; id < 2; id += 1) device.submit(id, stream, 0, 0, 0, ...Array(3).fill(new Float64Array(0)))
process.on('exit', () => console.log(heard.sort().join()))
`

it(
  'tells the process of what a receiver of fences throws, brings the next one, and lets it end',
  needsDriver,
  async () => {
    const argv = ['--input-type=module', '-e', THROWING, findAddon(REPOSITORY)!, standIn!.library]
    const { stdout } = await promisify(execFile)(process.execPath, argv)
    expect(stdout).toBe('a microtask,a microtask,a tick,a tick,thrown,thrown\n')
  },
)

const manyCycles = { ...needsDriver, timeout: 600_000 }
it('opens, moves and closes 10,000 times while calls fail, and leaves nothing behind', manyCycles, async () => {
  expect(await stressCuda([], 10_000, 1)).toMatch(/^10000 cycles, \d+ not opened, \d+ calls, 0 violations/)
})

it('does so from JavaScript too, with wrong arguments and in threads that end meanwhile', manyCycles, async () => {
  const program = join(REPOSITORY, 'test/support/programs/cuda-workout.ts')
  const argv = [program, findAddon(REPOSITORY)!, standIn!.library, '3', '10000']
  const { stdout } = await promisify(execFile)(process.execPath, argv)
  expect(stdout).toBe('done\n')
})

// Where a sanitizer is missing the test counts as skipped; in CI it fails.
it.for([
  [
    'AddressSanitizer and UndefinedBehaviorSanitizer',
    ['-fsanitize=address,undefined', '-fno-sanitize-recover=all'],
    300,
  ],
  ['ThreadSanitizer', ['-fsanitize=thread'], 100],
] as const)('is clean under %s', { timeout: 600_000 }, async ([, flags, cycles], { skip }) => {
  const missing = await missingSanitizer(flags[0])
  if (missing !== null && process.env.CI !== 'true') skip(missing)
  expect(await stressCuda(flags, cycles, 2)).toMatch(/^\d+ cycles, \d+ not opened, \d+ calls, 0 violations/)
})
