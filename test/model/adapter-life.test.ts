import { expect, it } from 'vitest'
import { CacheError } from '../../src/core/errors.ts'
import type { TenantId } from '../../src/core/ids.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'
import { JobTable } from '../../src/l2/jobs/job-table.ts'
import { MEMORY_DEFAULT } from '../../src/l2/options.ts'
import { checkStateLaws, checkTrafficLaws } from '../support/l2-laws.ts'
import { blanks, chainBatch, payloads, SPACE } from '../support/l2-objects.ts'
import { LIMITS, makeSet, settle, TENANTS } from '../support/l2-set.ts'
import { type Mood, MoodyAdapter } from '../support/moody-adapter.ts'
import { random } from '../support/random.ts'

const NAMES = ['a', 'b', 'c']
/** Adapters open within 15 s and close within 5 s, or are given up; a little for turns of the clock. */
const OPEN_MS = 15_000 + 100
const CLOSE_MS = 5_000 + 100

/** What is refused for good reasons; anything else is a bug. */
const REFUSALS = ['NOT_FOUND', 'BAD_REQUEST', 'L2_NAME_TAKEN', 'L2_BUSY', 'L2_DRAINING', 'L2_TIMEOUT', 'L2_UNAVAILABLE']

/** An act under way, and the moment by which it must have ended. */
interface Act {
  readonly what: string
  readonly dueMs: number
  isEnded: boolean
}

// Operators and traffic at once, over adapters that refuse, hang or get stuck at any operation. `steady` is an adapter
// that works: whatever the others do, it must serve at once, without the clock moving.
it.each([1, 2, 3, 4, 5, 6])(
  'acts on adapters end in time and hold up nothing, whatever hangs (seed %i)',
  async (seed) => {
    const next = random(seed)
    const made = makeSet(seed)
    const { set, clock } = made
    const jobs = new JobTable({ clock, adapters: set })
    const moody: MoodyAdapter[] = []
    const acts = new Set<Act>()
    const running = new Set<Promise<unknown>>()
    const rows = new Set<number>()
    const counts = new Map<string, number>()
    const steady = await set.add('steady', new MemoryAdapter(MEMORY_DEFAULT), LIMITS)

    function mood(): Mood {
      const draw = next(10)
      return draw < 6 ? 'fine' : draw < 8 ? 'reject' : draw < 9 ? 'hang' : 'stuck'
    }

    function note(what: string): void {
      counts.set(what, (counts.get(what) ?? 0) + 1)
    }

    /** Watches an act of an operator: it ends by its deadline, well or with a refusal. */
    function watch(what: string, withinMs: number, begin: () => Promise<unknown>): void {
      const act: Act = { what, dueMs: clock.nowMs() + withinMs, isEnded: false }
      acts.add(act)
      const work = (async () => begin())().then(
        () => note(what),
        (error: unknown) => {
          if (!(error instanceof CacheError) || !REFUSALS.includes(error.code)) throw error
          note(`${what} ${error.code}`)
        },
      )
      running.add(work)
      void work.finally(() => {
        act.isEnded = true
        running.delete(work)
      })
    }

    function operate(name: string): void {
      const action = next(10)
      if (action < 3) {
        const adapter = new MoodyAdapter(mood)
        moody.push(adapter)
        watch('add', OPEN_MS, async () => rows.add((await set.add(name, adapter, LIMITS)).row))
      } else if (action < 5) {
        const deadlineMs = next(400)
        watch('drain', deadlineMs + 1, async () => {
          const attached = set.roster.known(name)
          const target = next(2) === 0 ? 'steady' : NAMES[next(NAMES.length)]!
          const isEvacuating =
            next(2) === 0 && attached.state !== 'failed' && jobs.runningOn(attached, 'evacuate') === undefined
          const job = isEvacuating ? jobs.start({ kind: 'evacuate', adapter: name, target }) : undefined
          const drained = await set.drain(name, deadlineMs, job === undefined ? undefined : jobs.ended(job.id))
          if (!drained.isDrained && job !== undefined) jobs.cancel(job.id)
        })
      } else if (action < 6) watch('undrain', 1, async () => set.undrain(name))
      else if (action < 8) watch('remove', CLOSE_MS, () => set.remove(name, { force: next(3) === 0 }))
      else if (action < 9)
        watch('job', 1, async () => jobs.start({ kind: next(2) === 0 ? 'verify' : 'stats', adapter: name }))
      else if (next(8) === 0) set.fail(name, new Error('on purpose'))
      else {
        const job = jobs.list().at(-1)
        if (job !== undefined) jobs.cancel(job.id)
      }
    }

    function submit(name: string): void {
      const attached = set.find(name)
      if (attached === undefined) return
      const tenant = next(TENANTS) as TenantId
      const chain = next(6)
      const to = 1 + next(5)
      const batch = chainBatch(SPACE, chain, 0, to)
      const kind = next(3)
      const work =
        kind === 0
          ? set.submitStore(attached, tenant, batch, payloads(chain, 0, to))
          : kind === 1
            ? set.submitLoad(attached, tenant, batch, blanks(to))
            : set.submitLookup(attached, tenant, batch)
      running.add(work)
      void work.finally(() => running.delete(work))
    }

    /** Stores and looks up on the adapter that works: both end in this turn of the clock. */
    async function probe(): Promise<void> {
      const batch = chainBatch(SPACE, 50 + next(4), 0, 2)
      let answers = 0
      void set.submitStore(steady, 0 as TenantId, batch, payloads(50, 0, 2)).then(() => {
        answers += 1
      })
      void set.submitLookup(steady, 0 as TenantId, batch).then(() => {
        answers += 1
      })
      await settle()
      expect(answers, 'the adapter that works answers at once').toBe(2)
    }

    function check(): void {
      checkStateLaws(made)
      for (const row of rows) checkTrafficLaws(made, row)
      checkTrafficLaws(made, steady.row)
      for (const attached of set.all()) {
        const own = jobs.list().filter(({ state, adapter }) => state === 'running' && adapter === attached.name)
        expect(made.cells.get(attached.row, 'activeJobs')).toBeGreaterThanOrEqual(own.length > 0 ? 1 : 0)
        expect(attached.evacuations).toBeGreaterThanOrEqual(0)
      }
      for (const act of acts) {
        if (act.isEnded) acts.delete(act)
        else expect(clock.nowMs(), `${act.what} is overdue`).toBeLessThanOrEqual(act.dueMs)
      }
    }

    for (let step = 0; step < 400; step += 1) {
      const name = NAMES[next(NAMES.length)]!
      const action = next(20)
      if (action < 8) operate(name)
      else if (action < 14) submit(name)
      else if (action < 15 && moody.length > 0) moody[next(moody.length)]!.release()
      else if (action < 16) await probe()
      else clock.advance(next(120))
      await settle()
      check()
    }

    for (const { name } of set.all()) watch('remove', CLOSE_MS, () => set.remove(name, { force: true }))
    for (let rest = 0; rest < 60 && running.size > 0; rest += 1) {
      clock.advance(1_000)
      await settle()
      check()
    }
    expect(running.size, 'every act and every batch ends').toBe(0)
    for (const adapter of moody) adapter.release()
    for (let rest = 0; rest < 60; rest += 1) {
      clock.advance(1_000)
      await settle()
    }
    expect(jobs.list().filter(({ state }) => state === 'running')).toEqual([])
    for (const row of [...rows, steady.row]) {
      for (const field of ['inflightStores', 'inflightLoads', 'inflightLoadBytes', 'activeJobs'] as const) {
        expect([row, field, made.cells.get(row, field)]).toEqual([row, field, 0])
      }
    }
    expect([made.states.get(0, 'active'), made.states.get(0, 'draining')]).toEqual([0, 0])
    for (const wanted of ['add', 'drain', 'undrain', 'remove', 'job', 'add L2_NAME_TAKEN', 'remove L2_DRAINING']) {
      expect(counts.get(wanted) ?? 0, `${wanted} happened`).toBeGreaterThan(0)
    }
  },
)
