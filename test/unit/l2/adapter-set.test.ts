import { describe, expect, it } from 'vitest'
import type { TenantId } from '../../../src/core/ids.ts'
import { OUTCOME_FAILED, OUTCOME_OK } from '../../../src/l2/adapter.ts'
import { MemoryAdapter } from '../../../src/l2/adapters/memory.ts'
import { MEMORY_DEFAULT } from '../../../src/l2/options.ts'
import { type Fault, FaultAdapter } from '../../support/fault-adapter.ts'
import { blanks, chainBatch, payloads, SPACE } from '../../support/l2-objects.ts'
import { LIMITS, makeSet, settle } from '../../support/l2-set.ts'

const TENANT = 1 as TenantId

async function withFault(fault: Fault = 'none') {
  const made = makeSet()
  const adapter = new FaultAdapter(made.clock)
  adapter.nextFault = () => fault
  const attached = await made.set.add('disk', adapter, LIMITS)
  const store = (from = 0, to = 2) =>
    made.set.submitStore(attached, TENANT, chainBatch(SPACE, 1, from, to), payloads(1, from, to))
  const load = (to = 2) => made.set.submitLoad(attached, TENANT, chainBatch(SPACE, 1, 0, to), blanks(to))
  const lookup = () => made.set.submitLookup(attached, TENANT, chainBatch(SPACE, 1, 0, 2))
  const tenantCount = (field: Parameters<typeof made.tenantCells.get>[1]) =>
    made.tenantCells.get(attached.row * 3 + TENANT, field)
  const cell = (field: Parameters<typeof made.cells.get>[1]) => made.cells.get(attached.row, field)
  return { ...made, adapter, attached, store, load, lookup, tenantCount, cell }
}

describe('names and rows', () => {
  it.each(['', '.', '..', 'a b', 'ä', 'x'.repeat(65), 'a/b'])('refuses the name %j', async (name) => {
    const { set } = makeSet()
    await expect(set.add(name, new MemoryAdapter(MEMORY_DEFAULT), LIMITS)).rejects.toMatchObject({
      code: 'BAD_REQUEST',
    })
  })

  it('refuses a name that is taken, even while its adapter is still opening', async () => {
    const { set } = makeSet()
    const first = set.add('disk', new MemoryAdapter(MEMORY_DEFAULT), LIMITS)
    await expect(set.add('disk', new MemoryAdapter(MEMORY_DEFAULT), LIMITS)).rejects.toMatchObject({
      code: 'L2_BUSY',
    })
    await first
    await expect(set.add('disk', new MemoryAdapter(MEMORY_DEFAULT), LIMITS)).rejects.toMatchObject({
      code: 'L2_NAME_TAKEN',
    })
  })

  it('keeps the row of a name when its adapter comes again, and gives no row twice', async () => {
    const { set } = makeSet()
    const first = await set.add('a', new MemoryAdapter(MEMORY_DEFAULT), LIMITS)
    await set.remove('a', { force: true })
    const other = await set.add('b', new MemoryAdapter(MEMORY_DEFAULT), LIMITS)
    const again = await set.add('a', new MemoryAdapter(MEMORY_DEFAULT), LIMITS)
    expect(other.row).not.toBe(first.row)
    expect(again.row).toBe(first.row)
  })

  it('asks adapters in the order of configuration', async () => {
    const { set } = makeSet()
    for (const name of ['b', 'a', 'c']) await set.add(name, new MemoryAdapter(MEMORY_DEFAULT), LIMITS)
    expect(set.loadable().map(({ name }) => name)).toEqual(['b', 'a', 'c'])
  })
})

describe('a batch', () => {
  it('counts what is in flight until it ends', async () => {
    const { clock, store, cell, tenantCount } = await withFault('slow')
    const running = store()
    expect([cell('inflightStores'), cell('inflightStoreObjects'), tenantCount('storeSubmittedObjects')]).toEqual([
      1, 2, 2,
    ])
    await settle()
    clock.advance(5)
    await running
    expect([cell('inflightStores'), cell('inflightStoreObjects'), tenantCount('storeCompletedObjects')]).toEqual([
      0, 0, 2,
    ])
  })

  it('reserves L1 bytes while it loads', async () => {
    const { clock, load, cell } = await withFault('slow')
    const running = load()
    expect(cell('inflightLoadBytes')).toBe(2 * SPACE.shardBytes)
    await settle()
    clock.advance(5)
    await running
    expect(cell('inflightLoadBytes')).toBe(0)
  })

  it('publishes its bytes and seconds, with the row of the adapter', async () => {
    const { clock, store, load, events, attached, tenantCount } = await withFault('slow')
    for (const submit of [store, store, load]) {
      const running = submit()
      await settle()
      clock.advance(5)
      await running
    }
    const moved = { tenant: TENANT, a: 2 * SPACE.shardBytes, b: 0.005, c: attached.row }
    expect(events).toEqual([
      { type: 'l2_stored', ...moved },
      { type: 'l2_loaded', ...moved }, // the second store moved nothing
    ])
    expect(tenantCount('storeBusySeconds')).toBe(0.005)
  })

  it('is tried again when it was refused whole', async () => {
    const { clock, adapter, store, tenantCount } = await withFault()
    adapter.nextFault = () => (adapter.calls === 1 ? 'reject' : 'none')
    const running = store()
    await settle()
    clock.advance(LIMITS.retryDelayMs)
    expect([...(await running).outcomes]).toEqual([OUTCOME_OK, OUTCOME_OK])
    expect(tenantCount('storeSubmittedRequests')).toBe(1)
  })

  it('is not tried again when that cannot help', async () => {
    const { adapter, store, tenantCount } = await withFault('reject_for_good')
    expect([...(await store()).outcomes]).toEqual([OUTCOME_FAILED, OUTCOME_FAILED])
    expect(adapter.calls).toBe(1)
    expect(tenantCount('storeFailedError')).toBe(2)
  })

  it('ends at its deadline, retries included', async () => {
    const { clock, store, tenantCount } = await withFault('hang')
    const running = store()
    await settle()
    clock.advance(LIMITS.storeDeadlineMs)
    expect((await running).quiesced).toBeUndefined()
    expect(tenantCount('storeFailedTimeout')).toBe(2)
  })

  it('ends without an adapter that does not let go, and says when it does', async () => {
    const { clock, adapter, load, tenantCount, attached } = await withFault('stuck')
    const running = load()
    await settle()
    clock.advance(LIMITS.loadDeadlineMs + LIMITS.abandonAfterMs)
    const { quiesced, outcomes } = await running
    expect([...outcomes]).toEqual([OUTCOME_FAILED, OUTCOME_FAILED])
    expect(tenantCount('failureError')).toBe(2)
    let isQuiet = false
    quiesced!.then(() => {
      isQuiet = true
    })
    await settle()
    expect([isQuiet, attached.isIdle, attached.inFlight().abandoned]).toEqual([false, false, 1])
    adapter.release()
    await settle()
    expect([isQuiet, attached.isIdle, attached.inFlight().abandoned]).toEqual([true, true, 0])
  })

  it('counts as cancelled when its caller goes away', async () => {
    const { set, attached, tenantCount } = await withFault('hang')
    const abort = new AbortController()
    const running = set.submitLoad(attached, TENANT, chainBatch(SPACE, 1, 0, 2), blanks(2), abort.signal)
    await settle()
    abort.abort()
    await running
    expect(tenantCount('failureCancelled')).toBe(2)
    expect(attached.circuit.state).toBe(0)
  })

  it('takes the usage of its adapter into the cells', async () => {
    const { store, cell } = await withFault()
    await store()
    expect([cell('usageBytes'), cell('objects')]).toEqual([2 * SPACE.shardBytes, 2])
  })
})

describe('the breaker', () => {
  it('opens after failures in a row, refuses, and closes after one success', async () => {
    const { clock, adapter, store, lookup, cell, tenantCount } = await withFault('reject_for_good')
    for (let failure = 0; failure < LIMITS.circuitFailures; failure += 1) await store()
    expect(cell('circuitState')).toBe(2)
    await store()
    expect([...(await lookup())]).toEqual([0, 0])
    expect([adapter.calls, tenantCount('storeSkippedCircuitOpen')]).toEqual([LIMITS.circuitFailures, 2])
    clock.advance(LIMITS.circuitOpenMs)
    adapter.nextFault = () => 'none'
    await store()
    expect(cell('circuitState')).toBe(0)
  })

  it('lets one batch try a backend that had failed, and opens again when that fails', async () => {
    const { clock, adapter, store, load, cell } = await withFault('reject_for_good')
    for (let failure = 0; failure < LIMITS.circuitFailures; failure += 1) await store()
    clock.advance(LIMITS.circuitOpenMs)
    adapter.nextFault = () => 'hang'
    const probe = store()
    expect(cell('circuitState')).toBe(1)
    await load()
    expect(adapter.calls).toBe(LIMITS.circuitFailures + 1)
    await settle()
    clock.advance(LIMITS.storeDeadlineMs)
    await probe
    expect(cell('circuitState')).toBe(2)
  })
})

describe('draining', () => {
  it('takes no stores and lookups, serves promised loads, and ends when nothing is in flight', async () => {
    const { set, clock, adapter, store, load, lookup, states } = await withFault()
    await store()
    adapter.nextFault = () => 'slow'
    const running = store(2, 3)
    await settle()
    const drained = set.drain('disk', 1000)
    expect([states.get(0, 'active'), states.get(0, 'draining')]).toEqual([0, 1])
    expect([...(await lookup())]).toEqual([0, 0])
    expect([...(await store(3, 4)).outcomes]).toEqual([OUTCOME_FAILED])
    const promised = load()
    await settle()
    clock.advance(5)
    expect([...(await promised).outcomes]).toEqual([OUTCOME_OK, OUTCOME_OK])
    await running
    expect(await drained).toMatchObject({ state: 'draining', isDrained: true, left: { stores: 0, loads: 0 } })
  })

  it('goes on until the last of several batches has ended', async () => {
    const { set, clock, store } = await withFault('slow')
    const first = store(0, 2)
    await settle()
    clock.advance(2)
    const second = store(2, 4)
    await settle()
    let isDone = false
    const drained = set.drain('disk', 1000).finally(() => {
      isDone = true
    })
    clock.advance(3)
    await first
    await settle()
    expect(isDone).toBe(false)
    clock.advance(2)
    await second
    expect(await drained).toMatchObject({ isDrained: true, left: { stores: 0 } })
  })

  it('reports what was left at its deadline', async () => {
    const { set, clock, store } = await withFault('hang')
    const running = store()
    const drained = set.drain('disk', 50)
    await settle()
    clock.advance(50)
    expect(await drained).toMatchObject({ isDrained: false, left: { stores: 1, storeBytes: 2 * SPACE.shardBytes } })
    await settle()
    clock.advance(50)
    await running
  })

  it('can be taken back', async () => {
    const { set, store, changes } = await withFault()
    await set.drain('disk', 10)
    set.undrain('disk')
    expect([...(await store()).outcomes]).toEqual([OUTCOME_OK, OUTCOME_OK])
    expect(changes).toEqual(['disk: new -> active', 'disk: active -> draining', 'disk: draining -> active'])
    expect(() => set.undrain('disk')).toThrow(expect.objectContaining({ code: 'L2_DRAINING' }))
  })

  it('comes before removal, unless that is forced', async () => {
    const { set, store, attached } = await withFault('hang')
    await expect(set.remove('disk')).rejects.toMatchObject({ code: 'L2_DRAINING' })
    const running = store()
    await settle()
    const removed = set.remove('disk', { force: true })
    await running
    await removed
    expect([attached.isGone, set.find('disk')]).toEqual([true, undefined])
    await expect(set.drain('disk', 1)).rejects.toMatchObject({ code: 'NOT_FOUND' })
  })
})

describe('a lost backend', () => {
  it('ends what is in flight and takes nothing any more', async () => {
    const { set, store, load, attached, states, errors } = await withFault('hang')
    const running = store()
    await settle()
    set.fail('disk', new Error('the worker died'))
    expect([...(await running).outcomes]).toEqual([OUTCOME_FAILED, OUTCOME_FAILED])
    expect([...(await load()).outcomes]).toEqual([OUTCOME_FAILED, OUTCOME_FAILED])
    expect([attached.state, states.get(0, 'active'), errors.length]).toEqual(['failed', 0, 1])
    expect(set.describe()).toMatchObject([{ name: 'disk', state: 'failed', lastError: 'the worker died' }])
    await set.remove('disk')
    expect(set.describe()).toEqual([])
  })

  it('does not hide a clear that could not be done', async () => {
    const { set, adapter, store } = await withFault()
    await store()
    expect(await set.clear({ model: 'm' })).toBe(2)
    adapter.nextFault = () => 'reject_for_good'
    await expect(set.clear({})).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
  })
})
