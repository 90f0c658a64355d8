import { MessageChannel } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { CacheError } from '../../../src/core/errors.ts'
import { type L2Adapter, OUTCOME_OK } from '../../../src/l2/adapter.ts'
import { hostAdapters } from '../../../src/l2/adapter-host.ts'
import { MemoryAdapter } from '../../../src/l2/adapters/memory.ts'
import type { JobReport } from '../../../src/l2/jobs/job.ts'
import { JobTable } from '../../../src/l2/jobs/job-table.ts'
import { MEMORY_DEFAULT } from '../../../src/l2/options.ts'
import { AdapterLink } from '../../../src/l2/remote-adapter.ts'
import { GatedAdapter } from '../../support/gated-adapter.ts'
import { chainBatch, loadChain, lookupChain, payloads, SPACE, storeChain } from '../../support/l2-objects.ts'
import { LIMITS, makeSet, settle } from '../../support/l2-set.ts'

function memory(capacityObjects = 0): MemoryAdapter {
  return new MemoryAdapter({ ...MEMORY_DEFAULT, capacityBytes: capacityObjects * SPACE.shardBytes })
}

async function withJobs(adapters: Record<string, L2Adapter>) {
  const made = makeSet()
  for (const [name, adapter] of Object.entries(adapters)) await made.set.add(name, adapter, LIMITS)
  const endings: JobReport[] = []
  const jobs = new JobTable({ clock: made.clock, adapters: made.set, onEnd: (report) => void endings.push(report) })
  const cell = (name: string, field: Parameters<typeof made.cells.get>[1]) =>
    made.cells.get(made.set.find(name)!.row, field)
  /** Starts a job and moves the clock until it has ended. */
  const run = async (request: Parameters<typeof jobs.start>[0], stepMs = 100): Promise<JobReport> => {
    const { id } = jobs.start(request)
    for (let turn = 0; turn < 2000 && jobs.find(id)!.state === 'running'; turn += 1) {
      await settle()
      made.clock.advance(stepMs)
    }
    return jobs.find(id)!
  }
  return { ...made, jobs, run, cell, endings }
}

describe('a verification', () => {
  it('reads every object, quarantines what is corrupt, and names it', async () => {
    const adapter = memory()
    const { run, cell } = await withJobs({ a: adapter })
    await storeChain(adapter, 1, 0, 100)
    adapter.spoil(7)
    const report = await run({ kind: 'verify', adapter: 'a' })
    expect(report).toMatchObject({
      state: 'done',
      objectsTotal: 100,
      bytesLeft: 0,
      counts: { objects: 100, ok: 99, corrupt: 1, failed: 0, bytes: 99 * SPACE.shardBytes },
      corrupt: [{ model: 'm', salt: '', rank: 0, hash: expect.stringMatching(/^[0-9a-f]{64}$/) }],
    })
    expect(adapter.usage()).toMatchObject({ objects: 99, checksumFailures: 1 })
    expect([cell('a', 'scrubbedObjects'), cell('a', 'checksumFailures'), cell('a', 'activeJobs')]).toEqual([100, 1, 0])
  })

  it('keeps to its rate', async () => {
    const adapter = memory()
    const { jobs, clock } = await withJobs({ a: adapter })
    await storeChain(adapter, 1, 0, 128)
    const { id } = jobs.start({ kind: 'verify', adapter: 'a', rateBytes: 64 * SPACE.shardBytes })
    await settle()
    expect(jobs.find(id)!.counts.objects).toBe(0)
    clock.advance(1000)
    await settle()
    expect(jobs.find(id)!.counts.objects).toBe(64)
    clock.advance(1000)
    await settle()
    expect(jobs.find(id)).toMatchObject({ state: 'done', elapsedMs: 2000, counts: { objects: 128 } })
  })

  it('outlives failures of a while, and fails after that', async () => {
    const { jobs, run } = await withJobs({ a: flaky(2), b: flaky(1000) })
    expect(await run({ kind: 'verify', adapter: 'a' })).toMatchObject({ state: 'done', counts: { ok: 0 } })
    expect(await run({ kind: 'verify', adapter: 'b' })).toMatchObject({ state: 'failed', error: 'refused on purpose' })
    expect(jobs.list().map(({ state }) => state)).toEqual(['done', 'failed'])
  })

  it('says of an adapter that cannot be enumerated that it cannot', async () => {
    const { run } = await withJobs({ blind: Object.assign(new GatedAdapter(), { list: undefined }) })
    const report = await run({ kind: 'verify', adapter: 'blind' })
    expect(report).toMatchObject({ state: 'failed', error: expect.stringContaining('cannot be enumerated') })
  })
})

describe('a count', () => {
  it('tells models and salts apart, the largest first', async () => {
    const adapter = memory()
    const { run } = await withJobs({ a: adapter })
    await storeChain(adapter, 1, 0, 3)
    await storeChain(adapter, 1, 0, 5, { ...SPACE, salt: 's' })
    expect((await run({ kind: 'stats', adapter: 'a' })).spaces).toMatchObject([
      { model: 'm', salt: 's', objects: 5, bytes: 5 * SPACE.shardBytes },
      { model: 'm', salt: '', objects: 3, bytes: 3 * SPACE.shardBytes },
    ])
  })

  it('folds the spaces past its limit into one row', async () => {
    const adapter = memory()
    const { run } = await withJobs({ a: adapter })
    for (let salt = 0; salt < 105; salt += 1) await storeChain(adapter, 1, 0, 1, { ...SPACE, salt: `s${salt}` })
    const { spaces } = await run({ kind: 'stats', adapter: 'a' })
    expect(spaces.length).toBe(101)
    expect(spaces[0]).toMatchObject({ model: '__other__', objects: 5 })
  })
})

describe('an evacuation', () => {
  it('copies every object with its bytes and its parent, and takes nothing away', async () => {
    const [source, target] = [memory(), memory()]
    const { run, cell } = await withJobs({ a: source, b: target })
    await storeChain(source, 1, 0, 150)
    await storeChain(target, 1, 0, 20)
    const report = await run({ kind: 'evacuate', adapter: 'a', target: 'b' })
    expect(report).toMatchObject({ state: 'done', target: 'b', counts: { ok: 130, present: 20, failed: 0 } })
    expect(await loadChain(target, 1, 0, 150)).toEqual(Array(150).fill(OUTCOME_OK))
    expect(source.usage().objects).toBe(150)
    expect([cell('a', 'evacuatedObjects'), cell('a', 'evacuatedBytes')]).toEqual([130, 130 * SPACE.shardBytes])
    const listed = await target.list('', 1000, new AbortController().signal)
    const parents = Buffer.from(listed.batches[0]!.parents)
    expect(parents.length).toBe(150 * 32)
    expect(parents.subarray(32).some((byte) => byte !== 0)).toBe(true)
  })

  it('goes on where a cancelled one was', async () => {
    const [source, target] = [memory(), memory()]
    const { jobs, run, clock } = await withJobs({ a: source, b: target })
    await storeChain(source, 1, 0, 128)
    const { id } = jobs.start({ kind: 'evacuate', adapter: 'a', target: 'b', rateBytes: 64 * SPACE.shardBytes })
    await settle()
    clock.advance(1000)
    await settle()
    jobs.cancel(id)
    await settle()
    expect(jobs.find(id)).toMatchObject({ state: 'cancelled', counts: { ok: 64 }, bytesLeft: 64 * SPACE.shardBytes })
    expect(await run({ kind: 'evacuate', adapter: 'a', target: 'b' })).toMatchObject({
      counts: { ok: 64, present: 64 },
    })
  })

  it('counts what is corrupt or finds no room, and copies the rest', async () => {
    const [source, target] = [memory(), memory(10)]
    const { run, cell } = await withJobs({ a: source, b: target })
    await storeChain(source, 1, 0, 12)
    source.spoil(11)
    const report = await run({ kind: 'evacuate', adapter: 'a', target: 'b' })
    expect(report).toMatchObject({ state: 'done', counts: { objects: 12, ok: 10, full: 1, corrupt: 1 } })
    expect(cell('a', 'evacuationFailedObjects')).toBe(1)
    expect(await lookupChain(target, 1, 0, 12)).toEqual([...Array(10).fill(1), 0, 0])
  })

  it('walks again for what was being stored when the drain began', async () => {
    const source = new GatedAdapter('store')
    const target = memory()
    const { set, jobs, clock } = await withJobs({ a: source, b: target })
    source.gated.clear()
    await storeChain(source, 1, 0, 2)
    source.gated.add('store')
    const attached = set.find('a')!
    const late = set.submitStore(attached, 0 as never, chainBatch(SPACE, 2, 0, 2), payloads(2, 0, 2))
    await settle()
    const { id } = jobs.start({ kind: 'evacuate', adapter: 'a', target: 'b' })
    const drained = set.drain('a', 10_000, jobs.ended(id))
    await settle()
    expect(jobs.find(id)!.state).toBe('running')
    source.openGate()
    await late
    clock.advance(50)
    await settle()
    expect(await drained).toMatchObject({ isDrained: true })
    expect(await lookupChain(target, 2, 0, 2)).toEqual([1, 1])
  })

  it('passes the bytes of remote adapters through shared memory', async () => {
    const [source, target] = [memory(), memory()]
    const sent: Record<string, unknown>[] = []
    const { run } = await withJobs({ a: remote(source, sent), b: remote(target, sent) })
    await storeChain(source, 1, 0, 5)
    expect(await run({ kind: 'evacuate', adapter: 'a', target: 'b' })).toMatchObject({ counts: { ok: 5 } })
    expect(await loadChain(target, 1, 0, 5)).toEqual(Array(5).fill(OUTCOME_OK))
    const moved = sent.filter(({ kind }) => kind === 'load' || kind === 'store')
    expect(moved.length).toBe(2)
    for (const message of moved) expect(message).toMatchObject({ inline: null, shared: expect.any(SharedArrayBuffer) })
  })
})

describe('the table of jobs', () => {
  it('runs one job of a kind on an adapter', async () => {
    const { jobs } = await withJobs({ a: flaky(1000), b: memory() })
    jobs.start({ kind: 'verify', adapter: 'a' })
    expect(() => jobs.start({ kind: 'verify', adapter: 'a' })).toThrow(expect.objectContaining({ code: 'L2_BUSY' }))
    jobs.start({ kind: 'stats', adapter: 'a' })
    jobs.start({ kind: 'verify', adapter: 'b' })
  })

  it.each([
    [{ kind: 'verify', adapter: 'nobody' }, 'NOT_FOUND'],
    [{ kind: 'evacuate', adapter: 'a' }, 'BAD_REQUEST'],
    [{ kind: 'evacuate', adapter: 'a', target: 'a' }, 'BAD_REQUEST'],
    [{ kind: 'evacuate', adapter: 'a', target: 'nobody' }, 'BAD_REQUEST'],
    [{ kind: 'verify', adapter: 'a', target: 'b' }, 'BAD_REQUEST'],
  ] as const)('refuses %j with %s', async (request, code) => {
    const { jobs } = await withJobs({ a: memory(), b: memory() })
    expect(() => jobs.start(request)).toThrow(expect.objectContaining({ code }))
    expect(jobs.list()).toEqual([])
  })

  it('ends jobs with the adapter that they read, or write', async () => {
    const [source, target] = [memory(), memory()]
    const { set, jobs, clock, endings } = await withJobs({ a: source, b: target })
    await storeChain(source, 1, 0, 128)
    jobs.start({ kind: 'evacuate', adapter: 'a', target: 'b', rateBytes: 64 * SPACE.shardBytes })
    await settle()
    void set.drain('b', 0)
    clock.advance(1000)
    await settle()
    clock.advance(1000)
    await settle()
    expect(endings).toMatchObject([{ state: 'failed', error: expect.stringContaining('takes no stores') }])
    expect(set.find('a')!.evacuations).toBe(0)
  })

  it('forgets the oldest ones that have ended', async () => {
    const { jobs, run } = await withJobs({ a: memory() })
    for (let count = 0; count < 70; count += 1) await run({ kind: 'stats', adapter: 'a' })
    expect(jobs.list().length).toBe(65)
    expect(jobs.find('job-1')).toBeUndefined()
    expect(jobs.cancel('job-70')).toBe(false)
  })

  it('ends, when it is told to, although its adapter does not let go of what it was handed', async () => {
    const stuck = new GatedAdapter()
    const { jobs, clock, set } = await withJobs({ a: stuck, b: memory() })
    await storeChain(stuck, 1, 0, 3)
    stuck.gated.add('load')
    const [verify, evacuate] = [
      jobs.start({ kind: 'verify', adapter: 'a' }),
      jobs.start({ kind: 'evacuate', adapter: 'a', target: 'b' }),
    ]
    await settle()
    clock.advance(LIMITS.loadDeadlineMs + LIMITS.abandonAfterMs)
    await settle()
    expect(set.find('a')!.inFlight().abandoned).toBe(2)
    expect([verify, evacuate].map(({ id }) => jobs.find(id)!.state)).toEqual(['running', 'running'])
    jobs.cancel(verify.id)
    await settle()
    expect(jobs.find(verify.id)!.state).toBe('cancelled')
    const closed = jobs.close()
    await settle()
    expect(jobs.find(evacuate.id)!.state).toBe('cancelled')
    await closed
    stuck.openGate()
  })

  it('ends every job at its close', async () => {
    const adapter = memory()
    const { jobs } = await withJobs({ a: adapter })
    await storeChain(adapter, 1, 0, 128)
    jobs.start({ kind: 'verify', adapter: 'a', rateBytes: 1 })
    await jobs.close()
    expect(jobs.list()).toMatchObject([{ state: 'cancelled' }])
  })
})

/** An adapter whose first `failures` pages are refused. */
function flaky(failures: number): L2Adapter {
  const adapter = new GatedAdapter()
  let left = failures
  const { inner } = adapter
  return Object.assign(adapter, {
    list: async (...given: Parameters<MemoryAdapter['list']>) => {
      left -= 1
      if (left >= 0) throw REFUSAL
      return inner.list(...given)
    },
  })
}

const REFUSAL = new CacheError('L2_UNAVAILABLE', 'refused on purpose')

function remote(adapter: L2Adapter, sent: Record<string, unknown>[]): L2Adapter {
  const { port1, port2 } = new MessageChannel()
  const post = port1.postMessage.bind(port1)
  port1.postMessage = (message: Record<string, unknown>, transfer?: never) => {
    sent.push(message)
    post(message, transfer)
  }
  hostAdapters(port2, null, { memory: () => adapter })
  const link = new AdapterLink(port1, null).adapter(MEMORY_DEFAULT)
  const close = link.close.bind(link)
  return Object.assign(link, {
    close: async () => {
      await close()
      port1.close()
    },
  })
}
