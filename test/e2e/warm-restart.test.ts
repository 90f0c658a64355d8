import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { MpClient } from '../../src/client/mp-client.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { SegmentFile } from '../../src/native/segment-file.ts'
import type { WireKey, WireSlot } from '../../src/protocol/mp/messages.ts'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { HttpClient } from '../support/http-client.ts'
import { contextOf, fill, found, holds, keyOf, promptOf, SHARD_BYTES } from '../support/mp.ts'
import { until } from '../support/until.ts'

// Each test starts engines one after the other, which takes long on a busy machine.
vi.setConfig({ testTimeout: 240_000 })

const FLAGS = ['--chunk-tokens', '16', '--log-level', 'warn', '--l2', 'none']
const CHUNKS = 8
/** More than 53 bits. */
const WORKER = 0x7fff_ffff_ffff_fff1n

let home: EngineHome
let engine: EngineProcess
let client: MpClient
let memory: Uint8Array

beforeEach(() => {
  home = new EngineHome()
})
afterEach(async () => {
  client.close()
  await home.remove()
})

/** Starts an engine and a worker; `restart` then runs another one on the same port. */
async function start(): Promise<void> {
  engine = await home.start({ flags: FLAGS, l1Size: '4MiB' })
  client = new MpClient(engine.addresses.mp!, { clock: new SystemClock(), timeoutMs: 20_000 })
  await client.chunkTokens()
  const { name } = await client.register(contextOf(WORKER))
  expect(`/dev/shm/${name}`).toBe(home.segmentPath)
}

async function restart(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  await engine.stop(signal)
  const mpPort = Number(engine.addresses.mp!.split(':').at(-1))
  engine = await home.start({ flags: FLAGS, l1Size: '4MiB', mpPort })
}

/** Bytes of slots, through the file that the worker attached to before the first restart. */
function transfer(slots: readonly WireSlot[], segment: SegmentFile, write: boolean): void {
  for (const { offset, length } of slots) {
    if (write) segment.write(offset, memory.subarray(offset, offset + length))
    else memory.set(segment.read(offset, length), offset)
  }
}

async function store(key: WireKey, segment: SegmentFile, name: number): Promise<void> {
  const { slots, chunkIndices } = await client.prepareStore(key, WORKER)
  fill(memory, slots, chunkIndices, name)
  transfer(slots, segment, true)
  expect(await client.commitStore(key, WORKER)).toBe(true)
}

async function quarantined(): Promise<number> {
  const { l1 } = await new HttpClient(engine).must('GET', '/status')
  return l1.quarantinedBytes + (l1.quarantinedReadBytes ?? 0)
}

it.each(['SIGKILL', 'SIGTERM'] as const)(
  'a worker works on over %s of the engine, without registering again',
  async (signal) => {
    await start()
    const segment = SegmentFile.open(home.segmentPath.split('/').at(-1)!)
    memory = new Uint8Array(4 * 1024 ** 2)
    const first = keyOf(promptOf(1, CHUNKS), { requestId: 'first' })
    const second = keyOf(promptOf(2, CHUNKS), { requestId: 'second' })
    await store(first, segment, 1)
    for (let round = 0; round < 2; round += 1) {
      await restart(signal)
      expect(await client.ping(WORKER)).toBe(true)
      const again = { ...first, requestId: `again ${round}` }
      expect(await found(client, again)).toBe(CHUNKS)
      const slots = await client.prepareRetrieve(again, WORKER)
      expect(slots).toHaveLength(CHUNKS)
      memory.fill(0)
      transfer(slots!, segment, false)
      expect(holds(memory, slots!, 0, 1)).toBe(true)
      expect(await client.commitRetrieve(again, WORKER)).toBe(true)
      await client.endSession(again.requestId)
    }
    await store(second, segment, 2)
    expect(await found(client, { ...second, requestId: 'found' })).toBe(CHUNKS)
    segment.close()
  },
)

it('what a worker was copying when the engine was killed stays untouched until the worker is done', async () => {
  await start()
  memory = new Uint8Array(4 * 1024 ** 2)
  const segment = SegmentFile.open(home.segmentPath.split('/').at(-1)!)
  const read = keyOf(promptOf(1, CHUNKS), { requestId: 'read' })
  const written = keyOf(promptOf(2, CHUNKS), { requestId: 'written' })
  await store(read, segment, 1)
  expect(await found(client, read)).toBe(CHUNKS)
  const reading = (await client.prepareRetrieve(read, WORKER))!
  const writing = await client.prepareStore(written, WORKER)
  await restart('SIGKILL')

  expect(await quarantined()).toBe(2 * CHUNKS * SHARD_BYTES)
  const taken = new Set([...reading, ...writing.slots].map(({ offset }) => offset))
  const other = keyOf(promptOf(3, 400), { requestId: 'other' })
  const { slots } = await client.prepareStore(other, WORKER)
  expect(slots.length).toBeGreaterThan(0)
  expect(slots.filter(({ offset }) => taken.has(offset))).toEqual([])
  expect(await client.prepareStore(written, WORKER), 'two stores under one name').toMatchObject({ slots: [] })

  transfer(reading, segment, false)
  expect(holds(memory, reading, 0, 1)).toBe(true)
  expect(await client.commitRetrieve(read, WORKER)).toBe(false)
  expect(await client.commitStore(written, WORKER)).toBe(false)
  expect(await quarantined()).toBe(0)
  expect(await found(client, { ...read, requestId: 'later' })).toBe(CHUNKS)
  segment.close()
})

it('a model whose workers come back with another layout starts cold, and the log says so', async () => {
  await start()
  memory = new Uint8Array(4 * 1024 ** 2)
  const segment = SegmentFile.open(home.segmentPath.split('/').at(-1)!)
  const key = keyOf(promptOf(1, CHUNKS), { requestId: 'first' })
  const other = keyOf(promptOf(1, CHUNKS), { model: 'other', requestId: 'other' })
  await store(key, segment, 1)
  await client.register(contextOf(2n, { model: 'other' }))
  expect((await client.prepareStore(other, 2n)).slots).toHaveLength(CHUNKS)
  expect(await client.commitStore(other, 2n)).toBe(true)
  await restart('SIGKILL')
  for (let round = 0; round < 2; round += 1) {
    await client.register(contextOf(3n, { hidden: 32 }))
    const line = 'model \\"m\\" starts cold: its layout is 2x1x16x32 float16 and was 2x1x16x16'
    if (round === 0) await until('the log says so', () => engine.stderr.includes(line) || undefined)
    const wide = { ...key, requestId: `wide ${round}` }
    expect(await found(client, wide)).toBe(round * CHUNKS)
    expect(await found(client, { ...other, requestId: `other ${round}` })).toBe(CHUNKS)
    if (round === 1) break
    expect((await client.prepareStore(key, WORKER)).slots, 'for a worker of the old layout').toEqual([])
    const { slots } = await client.prepareStore(wide, 3n)
    expect(slots.map(({ length }) => length)).toEqual(new Array(CHUNKS).fill(2 * SHARD_BYTES))
    expect(await client.commitStore(wide, 3n)).toBe(true)
    await restart('SIGKILL')
  }
  segment.close()
})

it('a new layout holds although the engine was killed before its first prompt, and late workers of the old one end', async () => {
  await start()
  memory = new Uint8Array(4 * 1024 ** 2)
  const segment = SegmentFile.open(home.segmentPath.split('/').at(-1)!)
  const key = keyOf(promptOf(1, CHUNKS), { requestId: 'first' })
  const late = keyOf(promptOf(2, CHUNKS), { requestId: 'late' })
  await store(key, segment, 1)
  expect((await client.prepareStore(late, WORKER)).slots).toHaveLength(CHUNKS)
  await restart('SIGKILL')
  const wide = contextOf(3n, { hidden: 32 })
  await client.register(wide)
  await restart('SIGKILL')
  await client.register(wide)
  const { slots } = await client.prepareStore({ ...key, requestId: 'wide' }, 3n)
  expect(slots.map(({ length }) => length)).toEqual(new Array(CHUNKS).fill(2 * SHARD_BYTES))
  const places = slots.map(({ offset }) => offset).sort((a, b) => a - b)
  for (let at = 1; at < places.length; at += 1) {
    expect(places[at]! - places[at - 1]!, 'slots do not overlap').toBeGreaterThanOrEqual(2 * SHARD_BYTES)
  }
  expect(await quarantined()).toBe(CHUNKS * SHARD_BYTES)
  expect(await client.commitStore(late, WORKER)).toBe(false)
  expect(await quarantined()).toBe(0)
  segment.close() // until here its process has the segment open
})

it('a worker that left before the engine was killed is not known any more', async () => {
  await start()
  await client.unregister(WORKER)
  await restart('SIGKILL')
  expect(await client.ping(WORKER)).toBe(false)
})
