import { afterEach, expect, it } from 'vitest'
import { CacheError } from '../../../src/core/errors.ts'
import type { TenantId } from '../../../src/core/ids.ts'
import { MemoryAdapter } from '../../../src/l2/adapters/memory.ts'
import { MEMORY_DEFAULT } from '../../../src/l2/options.ts'
import { blanks, chainBatch, payloads, SPACE } from '../../support/l2-objects.ts'
import { LIMITS, makeSet, settle } from '../../support/l2-set.ts'

const TENANT = 0 as TenantId
const AWAY = new CacheError('L2_UNAVAILABLE', 'nobody listens')

/** Memory whose opening fails as it is told, or waits. */
class LateMemory extends MemoryAdapter {
  failure: unknown = AWAY
  openings = 0
  isClosed = false
  gate: Promise<void> = Promise.resolve()

  constructor() {
    super(MEMORY_DEFAULT)
  }

  override async open(): Promise<void> {
    this.openings += 1
    await this.gate
    if (this.failure !== undefined) throw this.failure
    await super.open()
  }

  override async close(): Promise<void> {
    this.isClosed = true
    await super.close()
  }
}

let made: ReturnType<typeof makeSet>
afterEach(() => made.set.close())

async function away() {
  made = makeSet()
  const adapter = new LateMemory()
  const attached = await made.set.roster.addEvenAway('late', adapter, LIMITS)
  return { ...made, adapter, attached }
}

async function pass(ms: number): Promise<void> {
  made.clock.advance(ms)
  await settle()
}

it('an adapter that is away is attached with an open circuit, and asked nothing', async () => {
  const { set, attached, errors } = await away()
  expect(set.describe()).toMatchObject([
    { name: 'late', state: 'active', circuit: 'open', lastError: 'nobody listens' },
  ])
  expect(attached.isReached).toBe(false)
  await pass(10 * LIMITS.circuitOpenMs) // no batch is let through to see
  expect(set.hasLoadable()).toBe(false)
  const stored = await set.submitStore(attached, TENANT, chainBatch(SPACE, 1, 0, 1), payloads(1, 0, 1))
  expect(stored).toMatchObject({ bytes: 0 })
  expect(made.tenantCells.sum('storeSkippedCircuitOpen')).toBe(1)
  expect(made.tenantCells.sum('storeSubmittedRequests')).toBe(0)
  expect(errors).toEqual([AWAY]) // told once, not at each try
})

it('is opened by itself once it can be, and takes work from then on', async () => {
  const { set, adapter, attached, reached } = await away()
  await pass(LIMITS.circuitOpenMs)
  expect(adapter.openings).toBe(2)
  adapter.failure = undefined
  await pass(LIMITS.circuitOpenMs - 1)
  expect([adapter.openings, attached.isReached]).toEqual([2, false])
  await pass(1)
  expect(reached).toEqual(['late'])
  expect(set.describe()).toMatchObject([{ circuit: 'closed', lastError: '' }])
  await set.submitStore(attached, TENANT, chainBatch(SPACE, 1, 0, 1), payloads(1, 0, 1))
  expect((await set.submitLoad(attached, TENANT, chainBatch(SPACE, 1, 0, 1), blanks(1))).bytes).toBe(SPACE.shardBytes)
  await pass(10 * LIMITS.circuitOpenMs)
  expect(adapter.openings).toBe(3)
})

it('tells each new reason once', async () => {
  const { adapter, errors } = await away()
  const other = new CacheError('L2_UNAVAILABLE', 'wrong password')
  adapter.failure = other
  for (let turn = 0; turn < 3; turn += 1) await pass(LIMITS.circuitOpenMs)
  expect(errors).toEqual([AWAY, other])
})

it('fails for good when what keeps it away cannot pass', async () => {
  const { set, adapter, attached } = await away()
  adapter.failure = new CacheError('DATA_DIR_LOCKED', 'another engine has it')
  await pass(LIMITS.circuitOpenMs)
  expect([attached.state, attached.lastError]).toEqual(['failed', 'another engine has it'])
  await pass(10 * LIMITS.circuitOpenMs)
  expect(adapter.openings).toBe(2)
  await set.remove('late')
})

it('is not attached when what keeps it away cannot pass at the start', async () => {
  made = makeSet()
  const adapter = new LateMemory()
  adapter.failure = new CacheError('CONFIG_INVALID', 'a wrong option')
  await expect(made.set.roster.addEvenAway('late', adapter, LIMITS)).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
  expect(made.set.all()).toEqual([])
  expect(adapter.isClosed).toBe(true)
})

it('waits for an opening that hangs instead of beginning another', async () => {
  made = makeSet()
  const adapter = new LateMemory()
  adapter.failure = undefined
  const gate = Promise.withResolvers<void>()
  adapter.gate = gate.promise
  const adding = made.set.roster.addEvenAway('late', adapter, LIMITS)
  await pass(15_000)
  const attached = await adding
  expect(attached.lastError).toContain('did not open within 15 s')
  await pass(10 * LIMITS.circuitOpenMs)
  expect([adapter.openings, attached.isReached]).toEqual([1, false])
  gate.resolve()
  await settle()
  expect(attached.isReached).toBe(true)
})

it('is tried no more once it was removed', async () => {
  const { set, adapter } = await away()
  await set.remove('late', { force: true })
  await pass(10 * LIMITS.circuitOpenMs)
  expect([adapter.openings, adapter.isClosed]).toEqual([1, true])
})
