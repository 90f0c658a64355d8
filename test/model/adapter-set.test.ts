import { expect, it } from 'vitest'
import type { TenantId } from '../../src/core/ids.ts'
import type { Attached } from '../../src/l2/adapter-set.ts'
import { FAULTS, FaultAdapter } from '../support/fault-adapter.ts'
import { checkTrafficLaws } from '../support/l2-laws.ts'
import { blanks, chainBatch, payloads, SPACE } from '../support/l2-objects.ts'
import { LIMITS, makeSet, settle, TENANTS } from '../support/l2-set.ts'
import { random } from '../support/random.ts'

function checkLaws(made: ReturnType<typeof makeSet>, row: number): void {
  checkTrafficLaws(made, row)
  const cell = (field: Parameters<typeof made.cells.get>[1]) => made.cells.get(row, field)
  expect(cell('inflightLoadBytes')).toBe(cell('inflightLoadObjects') * SPACE.shardBytes)
}

it.each([1, 2, 3, 4, 5])(
  'the laws of stores and loads hold after every step, whatever fails (seed %i)',
  async (seed) => {
    const next = random(seed)
    const made = makeSet(seed)
    const { set, clock } = made
    const adapters: FaultAdapter[] = []
    const rows = new Set<number>()
    const running = new Set<Promise<unknown>>()
    const submitted: (() => void)[] = []

    async function attach(name: string): Promise<void> {
      const adapter = new FaultAdapter(clock, { capacityBytes: 40 * SPACE.shardBytes })
      adapter.nextFault = () => (next(2) === 0 ? 'none' : FAULTS[next(FAULTS.length)]!)
      adapters.push(adapter)
      rows.add((await set.add(name, adapter, LIMITS)).row)
    }

    function submit(attached: Attached): void {
      const tenant = next(TENANTS) as TenantId
      const chain = next(8)
      const to = 1 + next(6)
      const batch = chainBatch(SPACE, chain, 0, to)
      const abort = new AbortController()
      if (next(3) === 0) submitted.push(() => abort.abort())
      const kind = next(5)
      const work =
        kind < 2
          ? set.submitStore(attached, tenant, batch, payloads(chain, 0, to), abort.signal)
          : kind < 4
            ? set.submitLoad(attached, tenant, batch, blanks(to), abort.signal)
            : set.submitLookup(attached, tenant, batch, abort.signal)
      running.add(work)
      work.finally(() => running.delete(work))
    }

    await attach('a')
    await attach('b')
    for (let step = 0; step < 400; step += 1) {
      const name = next(2) === 0 ? 'a' : 'b'
      const attached = set.find(name)
      const action = next(40)
      if (attached === undefined) await attach(name)
      else if (action < 24) submit(attached)
      else if (action < 27) submitted.splice(next(submitted.length + 1), 1)[0]?.()
      else if (action < 28) adapters[next(adapters.length)]!.release()
      else if (action === 28 && !attached.isGone) void set.drain(name, next(300))
      else if (action === 29 && attached.state === 'draining') set.undrain(name)
      else if (action === 30 && next(4) === 0) set.fail(name, new Error('on purpose'))
      else if (action === 31 && attached.isGone) {
        const removed = set.remove(name, { force: true })
        await settle()
        clock.advance(2 * LIMITS.abandonAfterMs)
        await removed
      } else clock.advance(next(60))
      for (const row of rows) checkLaws(made, row)
      await settle()
      for (const row of rows) checkLaws(made, row)
    }

    for (let rest = 0; rest < 20 && running.size > 0; rest += 1) {
      clock.advance(LIMITS.storeDeadlineMs)
      await settle()
    }
    expect(running.size, 'every batch ends').toBe(0)
    for (const adapter of adapters) adapter.release()
    await settle()
    for (const row of rows) {
      checkLaws(made, row)
      expect(made.cells.get(row, 'inflightStores') + made.cells.get(row, 'inflightLoads')).toBe(0)
    }
  },
)
