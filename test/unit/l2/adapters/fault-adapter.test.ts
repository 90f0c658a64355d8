import { describe, expect, it } from 'vitest'
import { ManualClock } from '../../../../src/core/clock.ts'
import { OUTCOME_CORRUPT, OUTCOME_OK } from '../../../../src/l2/adapter.ts'
import { FaultAdapter } from '../../../../src/l2/adapters/fault/fault-adapter.ts'
import { FAULT_DEFAULT } from '../../../../src/l2/adapters/fault/options.ts'
import { seededFaults } from '../../../../src/l2/adapters/fault/seeded-faults.ts'
import { MemoryAdapter } from '../../../../src/l2/adapters/memory.ts'
import { MEMORY_DEFAULT } from '../../../../src/l2/options.ts'
import { blanks, chainBatch, loadChain, payloadOf, payloads, SPACE, storeChain } from '../../../support/l2-objects.ts'

const OPTIONS = { ...FAULT_DEFAULT, inner: MEMORY_DEFAULT }

async function open(options: Partial<typeof OPTIONS>) {
  const clock = new ManualClock()
  const inner = new MemoryAdapter(MEMORY_DEFAULT)
  const adapter = new FaultAdapter(inner, { clock, nextFault: seededFaults({ ...OPTIONS, ...options }) })
  await adapter.open()
  return { clock, inner, adapter }
}

function effects(seed: number, rates: Partial<typeof OPTIONS>, count = 4000): string[] {
  const next = seededFaults({ ...OPTIONS, ...rates, seed })
  return Array.from({ length: count }, () => next().effect)
}

describe('seeded faults', () => {
  it.each([1, 2])('come in the shares asked for (seed %i)', (seed) => {
    const met = effects(seed, { errorRate: 0.2, corruptRate: 0.1, hangRate: 0.05 })
    const share = (effect: string) => met.filter((one) => one === effect).length / met.length
    expect(share('hang')).toBeCloseTo(0.05, 1)
    expect(share('reject')).toBeCloseTo(0.2 * 0.95, 1)
    expect(share('corrupt')).toBeCloseTo(0.1 * 0.8 * 0.95, 1)
  })

  it('are the same under the same seed, and others under another', () => {
    const rates = { errorRate: 0.3, hangRate: 0.1 }
    expect(effects(7, rates)).toEqual(effects(7, rates))
    expect(effects(7, rates)).not.toEqual(effects(8, rates))
  })

  it('of one kind do not move with the rate of another', () => {
    const hung = (met: string[]) => met.map((effect) => effect === 'hang')
    expect(hung(effects(3, { hangRate: 0.1, errorRate: 0.5 }))).toEqual(hung(effects(3, { hangRate: 0.1 })))
  })
})

describe('the fault adapter', () => {
  it('lets everything through while its rates are 0', async () => {
    const { adapter } = await open({})
    expect(await storeChain(adapter, 1, 0, 3)).toEqual([OUTCOME_OK, OUTCOME_OK, OUTCOME_OK])
    expect(await loadChain(adapter, 1, 0, 3)).toEqual([OUTCOME_OK, OUTCOME_OK, OUTCOME_OK])
  })

  it('spoils one object of a load, says so and counts it', async () => {
    const { inner, adapter } = await open({ corruptRate: 1 })
    await storeChain(inner, 1, 0, 2)
    const targets = blanks(2)
    const outcomes = new Uint8Array(2)
    const bytes = await adapter.load(chainBatch(SPACE, 1, 0, 2), targets, outcomes, new AbortController().signal)
    expect([...outcomes, bytes]).toEqual([OUTCOME_OK, OUTCOME_CORRUPT, SPACE.shardBytes])
    expect(targets[0]).toEqual(payloadOf(1, 0))
    expect(targets[1]).not.toEqual(payloadOf(1, 1))
    expect(adapter.usage().checksumFailures).toBe(1)
  })

  it('refuses in a way that may be tried again', async () => {
    const { adapter } = await open({ errorRate: 1 })
    await expect(storeChain(adapter, 1, 0, 1)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
  })

  it('holds an operation back for its latency', async () => {
    const { clock, adapter } = await open({ latencyMs: 50 })
    let isDone = false
    const stored = storeChain(adapter, 1, 0, 1).then(() => {
      isDone = true
    })
    clock.advance(49)
    await Promise.resolve()
    expect(isDone).toBe(false)
    clock.advance(1)
    await stored
  })

  it('hangs until it is given up, and then has touched nothing', async () => {
    const { inner, adapter } = await open({ hangRate: 1 })
    const abort = new AbortController()
    const stored = adapter.store(chainBatch(SPACE, 1, 0, 1), payloads(1, 0, 1), new Uint8Array(1), abort.signal)
    abort.abort()
    await expect(stored).rejects.toMatchObject({ code: 'L2_TIMEOUT' })
    expect(inner.usage().objects).toBe(0)
  })
})

it('hands quotas on, and says what tenants hold, without faults of its own', async () => {
  const { adapter, inner } = await open({ errorRate: 1 })
  const signal = new AbortController().signal
  expect(await adapter.setQuotas({ bySalt: [['', SPACE.shardBytes]] }, signal)).toBe(true)
  expect(await storeChain(inner, 1, 0, 1)).toEqual([OUTCOME_OK])
  await storeChain(inner, 2, 0, 1)
  expect(await adapter.tenants(signal)).toEqual([{ model: 'm', salt: '', bytes: SPACE.shardBytes, objects: 1 }])
})
