import { expect, it } from 'vitest'
import { MemoryAdapter } from '../../../src/l2/adapters/memory.ts'
import { ADAPTER_LIMITS_DEFAULT, MEMORY_DEFAULT } from '../../../src/l2/options.ts'
import { LoadGate } from '../../../src/transfer/load-gate.ts'
import type { TransferOptions } from '../../../src/transfer/options.ts'
import { KIB } from '../../support/engine.ts'
import { makeL1, openSpace } from '../../support/l1.ts'
import { makeSet, settle } from '../../support/l2-set.ts'

/** A gate before two adapters, for chunks of two ranks and 1 KiB each, 16 tokens. */
async function setUp(options: Partial<TransferOptions> = {}) {
  const { set, clock } = makeSet()
  const limits = { ...ADAPTER_LIMITS_DEFAULT, loadBudgetBytes: 8 * KIB, loadPendingBytes: 8 * KIB }
  const near = await set.add('near', new MemoryAdapter(MEMORY_DEFAULT), limits)
  const far = await set.add('far', new MemoryAdapter(MEMORY_DEFAULT), limits)
  const transfer = { loadBudgetBytes: 12 * KIB, skipSlowerTokensPerSecond: 0, ...options } as TransferOptions
  const gate = new LoadGate({ options: transfer, clock, adapters: set })
  const { cache } = makeL1({ capacityBytes: 16 * KIB, extentBytes: KIB })
  const spec = cache.spaces.spec(openSpace(cache, { ranks: 2, shardBytes: KIB }))
  const { signal } = new AbortController()
  return { gate, near, far, spec, signal, clock }
}

it('reckons with what is under way from the adapter and what waits for it', async () => {
  const { gate, near, far, spec, signal } = await setUp()
  expect(gate.secondsOf(near, KIB)).toBeUndefined()
  for (const adapter of [near, far]) gate.note(adapter, KIB, 1)
  const leave = await gate.enter([near, near, near], spec, signal)
  expect([gate.secondsOf(near, KIB), gate.secondsOf(far, KIB)]).toEqual([7, 1])
  const waiting = gate.enter([near, near], spec, signal)
  expect([gate.secondsOf(near, KIB), gate.pendingBytes(near)]).toEqual([11, 4 * KIB])
  leave!()
  const last = await waiting
  expect([gate.secondsOf(near, KIB), gate.pendingBytes(near)]).toEqual([5, 0])
  last!()
  expect(gate.secondsOf(near, KIB)).toBe(1)
})

it('takes nothing for a load that leaves while it waits', async () => {
  const { gate, near, far, spec, signal } = await setUp()
  gate.note(near, KIB, 1)
  const leave = await gate.enter([far, far, far, far], spec, signal)
  const abort = new AbortController()
  const waiting = gate.enter([near, near, near], spec, abort.signal) // near has room, all together have not
  await settle()
  expect(gate.secondsOf(near, KIB)).toBe(7)
  abort.abort()
  expect(await waiting).toBeUndefined()
  expect(gate.secondsOf(near, KIB)).toBe(1)
  leave!()
})

it('lets a slow adapter be looked at again every ten seconds, and not before', async () => {
  const { gate, near, far, spec, clock } = await setUp({ skipSlowerTokensPerSecond: 16 }) // a chunk takes a second
  gate.note(near, 2 * KIB, 1)
  gate.note(far, 2 * KIB, 3)
  const run = [near, near, far, near]
  expect(gate.worthwhile(run, spec)).toEqual([near, near])
  clock.advance(9_999)
  expect(gate.worthwhile(run, spec)).toEqual([near, near])
  clock.advance(1)
  expect(gate.worthwhile(run, spec)).toEqual(run)
  expect(gate.worthwhile(run, spec)).toEqual([near, near])
})
