import { afterEach, expect, it } from 'vitest'
import { ADAPTER_LIMITS_DEFAULT } from '../../src/l2/options.ts'
import { KIB, makeEngine, settle } from '../support/engine.ts'
import { chainOf, storeChain } from '../support/engine-client.ts'
import { GatedAdapter } from '../support/gated-adapter.ts'
import { contextOf, found, keyOf, type Mp, promptOf, SHARD_BYTES, startMp, storePrompt } from '../support/mp.ts'
import { treeOf } from '../support/tracing.ts'

const SHARD = { model: 'm', salt: '', ranks: 1, shardBytes: KIB, layout: '' }
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const CALLER = '00f067aa0ba902b7'
const TRACEPARENT = `00-${TRACE}-${CALLER}-01`

let mp: Mp | undefined
afterEach(() => {
  mp?.close()
  mp = undefined
})

/** An engine that is traced, with chunks in two adapters and nothing in L1. The slow one has what the fast one lacks. */
async function withTwoAdapters() {
  const setup = makeEngine({ seed: 1, traceRatio: 1 })
  const { engine, clock, memory } = setup
  const [fast, slow] = [new GatedAdapter(), new GatedAdapter()]
  const space = engine.openSpace(SHARD)
  setup.start()
  for (const [name, adapter, letters] of [
    ['fast', fast, 'ab'],
    ['slow', slow, 'abcd'],
  ] as const) {
    await engine.adapters.add(name, adapter, ADAPTER_LIMITS_DEFAULT)
    storeChain(engine, memory!, space, chainOf(letters))
    clock.advance(20)
    await settle(clock)
    engine.l1.remove({ space }, 'clear')
  }
  await fast.inner.clear({}, new AbortController().signal)
  storeChain(engine, memory!, space, chainOf('ab'))
  clock.advance(20)
  await settle(clock)
  engine.l1.remove({ space }, 'clear')
  setup.spans()
  return { ...setup, space, fast, slow }
}

it('shows what a lookup waited for: the adapters it asked and what each loaded, with times and counts', async () => {
  const { engine, clock, space, fast, slow, spans, cells } = await withTwoAdapters()
  for (const adapter of [fast, slow]) for (const kind of ['lookup', 'load'] as const) adapter.gated.add(kind)
  const lookup = engine.lookup(space, chainOf('abcdx'), engine.sessions.nextOwner())
  const startMs = clock.nowMs()
  for (const [adapter, ms] of [
    [fast, 2],
    [slow, 5],
    [fast, 10],
    [slow, 30],
  ] as const) {
    await settle(clock)
    clock.advance(ms)
    adapter.openGate()
  }
  await settle(clock)
  expect(lookup).toMatchObject({ state: 'final', hitChunks: 4 })
  const ended = spans()
  expect(treeOf(ended)).toEqual([
    'lookup partial',
    '  prefetch partial',
    '    l2_lookup partial',
    '    l2_lookup partial',
    '    l2_load ok',
    '    l2_load ok',
  ])
  expect(new Set(ended.map(({ trace }) => trace)).size).toBe(1)
  const tenant = engine.l1.spaces.spec(space).tenant
  const told = ended.map(({ name, adapter, startMs: from, endMs: to, chunks, bytes, numbers }) => [
    name,
    cells.adapters.label(adapter) ?? '',
    from - startMs,
    to - startMs,
    chunks,
    bytes,
    ...numbers,
  ])
  expect(ended.every((span) => span.tenant === tenant)).toBe(true)
  expect(told).toEqual([
    ['l2_lookup', 'fast', 0, 2, 5, 0, 2],
    ['l2_lookup', 'slow', 2, 7, 3, 0, 2],
    ['l2_load', 'fast', 7, 17, 2, 2 * KIB, 2],
    ['l2_load', 'slow', 7, 47, 2, 2 * KIB, 2],
    ['prefetch', '', 0, 47, 5, 4 * KIB, 4, 0],
    ['lookup', '', 0, 47, 5, 4 * KIB, 0, 0, 4],
  ])
})

it('shows a lookup that joins the load of another, and one whose client went away', async () => {
  const { engine, clock, space, fast, slow, spans } = await withTwoAdapters()
  for (const adapter of [fast, slow]) adapter.gated.add('lookup')
  engine.lookup(space, chainOf('abcd'), engine.sessions.nextOwner())
  engine.lookup(space, chainOf('abcd'), engine.sessions.nextOwner())
  const gone = engine.lookup(space, chainOf('abcd'), engine.sessions.nextOwner())
  await settle(clock)
  engine.release(gone)
  for (const adapter of [fast, slow]) {
    adapter.openGate()
    await settle(clock)
  }
  const prefetches = spans().filter(({ name }) => name === 'prefetch')
  expect(prefetches.map(({ outcome, numbers }) => [outcome, ...numbers])).toEqual([
    ['cancelled', 0, 1],
    ['ok', 4, 0],
    ['ok', 4, 1],
  ])
})

it('shows failures and the trim of the eviction loop', async () => {
  const { engine, clock, space, memory, fast, spans } = await withTwoAdapters()
  fast.inner.lookup = () => Promise.reject(new Error('broken'))
  engine.lookup(space, chainOf('ab'), engine.sessions.nextOwner())
  await settle(clock)
  const broken = spans().find(({ name, adapter }) => name === 'l2_lookup' && adapter === 0)
  expect(broken?.outcome).toBe('error')
  for (let prompt = 0; prompt < 9; prompt += 1) {
    storeChain(engine, memory!, space, chainOf(`${prompt}bcdefgh`))
    clock.advance(100)
    await settle(clock)
  }
  const [run] = spans().filter(({ name }) => name === 'eviction_run')
  expect(run).toMatchObject({ parent: '', tenant: -1, bytes: run!.chunks * KIB })
  expect(run!.chunks).toBeGreaterThan(0)
})

it('shows copies between the GPU and L1 as parts of the lookup they follow', async () => {
  const { engine, clock, spans } = makeEngine({ seed: 1, traceRatio: 1, l0Bytes: 16 * KIB })
  const space = engine.openSpace(SHARD)
  const device = engine.device!
  const copied = async (begin: (done: () => void) => void) => {
    let isDone = false
    begin(() => {
      isDone = true
    })
    for (let turn = 0; turn < 50 && !isDone; turn += 1) {
      clock.advance(1)
      await settle(clock, 1)
    }
    expect(isDone).toBe(true)
  }
  const first = device.begin(engine.lookup(space, chainOf('abcd'), engine.sessions.nextOwner()))
  expect(device.extend(first)).toBe(true)
  device.computed(first)
  await copied((done) => device.store(engine, first, done))
  device.end(first)
  device.removeSpace(space)
  const second = device.begin(engine.lookup(space, chainOf('abcd'), engine.sessions.nextOwner()))
  await copied((done) => device.fetch(engine, second, done))
  const ended = spans()
  expect(treeOf(ended)).toEqual(['lookup miss', '  store ok', 'lookup ok', '  retrieve ok'])
  const copies = ended.filter(({ name }) => name !== 'lookup')
  expect(copies.map(({ chunks, bytes, numbers }) => [chunks, bytes, ...numbers])).toEqual([
    [4, 4 * KIB, 4],
    [4, 4 * KIB, 4],
  ])
})

it("follows a client's trace through the MP wire, from its request's metadata", async () => {
  mp = await startMp({ traceRatio: 0.000_001 })
  const { engine, spans, clock } = mp
  const adapter = new GatedAdapter()
  await engine.adapters.add('disk', adapter, ADAPTER_LIMITS_DEFAULT)
  const client = mp.connect()
  await client.register(contextOf(1n))
  const key = keyOf(promptOf(1, 4), { traceparent: TRACEPARENT })
  await storePrompt(mp, client, key, 1n, 1)
  clock.advance(20)
  await settle(clock)
  expect(await found(client, key)).toBe(4)
  const { traceparent: _, ...plain } = key // the worker says nothing: its copy is a part of the lookup
  await client.prepareRetrieve(plain, 1n)
  await client.commitRetrieve(plain, 1n)
  const ended = spans()
  expect(treeOf(ended)).toEqual(['store ok', '  l2_store ok', 'lookup ok', '  retrieve ok'])
  expect(new Set(ended.map(({ trace }) => trace))).toEqual(new Set([TRACE]))
  for (const span of ended.filter(({ name }) => name === 'store' || name === 'lookup')) expect(span.parent).toBe(CALLER)
  expect(ended.find(({ name }) => name === 'retrieve')).toMatchObject({
    chunks: 4,
    bytes: 4 * SHARD_BYTES,
    numbers: [4],
  })
})

it.each([
  ['no context', '00-x'],
  ['an endless text', 'y'.repeat(60_000)],
  ['nothing', ''],
])('serves a client of the MP wire that sends %s, untraced', async (_, traceparent) => {
  mp = await startMp({ traceRatio: 0.000_001 })
  const client = mp.connect()
  await client.register(contextOf(1n))
  const key = keyOf(promptOf(1, 4), { traceparent })
  await storePrompt(mp, client, key, 1n, 1)
  expect(await found(client, key)).toBe(4)
  expect(mp.spans()).toEqual([])
})
