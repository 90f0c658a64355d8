import type { DeviceProfile } from './device-profiles.ts'

/** One batch on its way through a copy engine. */
export interface Job {
  /** Number of the submit, 1 upwards. */
  readonly sequence: number
  readonly way: 0 | 1
  /** Sequences that must have ended before this one starts. */
  readonly after: readonly number[]
  /** Engine seconds still to do, at full speed. */
  workSeconds: number
  /** Engine seconds used so far. */
  busySeconds: number
}

/** Jobs that would end within a nanosecond of each other end together, the older first. */
const SLACK_SECONDS = 1e-9

/**
 * The time model of a simulated device: two copy engines, one a direction, each first in first out.
 * A job at the head of its queue starts once the jobs it comes after have ended; until then it blocks those behind
 * it, as on a real engine. Jobs only come after older ones, so the oldest job can always run.
 * While both engines are busy each runs at `bothWaysRatio` of its speed.
 * Time here is the model's own and exact: a timer that fires late costs no throughput.
 */
export class CopyEngines<J extends Job> {
  readonly #bothWaysRatio: number
  readonly #queues: [J[], J[]] = [[], []]
  readonly #active: [J | null, J | null] = [null, null]
  readonly #pending = new Set<number>()
  #modelMs = 0

  constructor(profile: DeviceProfile) {
    this.#bothWaysRatio = profile.bothWaysRatio
  }

  /** Jobs not ended. */
  get pending(): number {
    return this.#pending.size
  }

  isPending(sequence: number): boolean {
    return this.#pending.has(sequence)
  }

  /** Queues a job. Call `advance` to the present first. */
  push(job: J): void {
    this.#queues[job.way].push(job)
    this.#pending.add(job.sequence)
    this.#startReady()
  }

  /** Moves model time to `nowMs` and appends the jobs that ended on the way to `ended`, in the order they ended. */
  advance(nowMs: number, ended: J[]): void {
    for (;;) {
      const dueMs = this.nextEndMs()
      if (dueMs > nowMs + SLACK_SECONDS * 1000) break
      // Decided before time moves, so that rounding of the clock can never leave a due job unfinished.
      const dueWork = this.#leastWork() + SLACK_SECONDS
      const endsStore = (this.#active[0]?.workSeconds ?? Number.POSITIVE_INFINITY) <= dueWork
      const endsLoad = (this.#active[1]?.workSeconds ?? Number.POSITIVE_INFINITY) <= dueWork
      this.#run(Math.max(dueMs, this.#modelMs))
      const isLoadOlder = endsStore && endsLoad && this.#active[1]!.sequence < this.#active[0]!.sequence
      if (isLoadOlder) this.#end(1, ended)
      if (endsStore) this.#end(0, ended)
      if (endsLoad && !isLoadOlder) this.#end(1, ended)
      this.#startReady()
    }
    this.#run(Math.max(nowMs, this.#modelMs))
  }

  /** When the next job ends, if nothing is pushed before; Infinity when idle. */
  nextEndMs(): number {
    return this.#modelMs + (this.#leastWork() / this.#speed()) * 1000
  }

  /** Takes out every job not ended, oldest first. */
  drop(): J[] {
    const jobs: J[] = []
    for (const way of [0, 1] as const) {
      const active = this.#active[way]
      if (active !== null) jobs.push(active)
      jobs.push(...this.#queues[way])
      this.#active[way] = null
      this.#queues[way] = []
    }
    this.#pending.clear()
    return jobs.sort((a, b) => a.sequence - b.sequence)
  }

  #speed(): number {
    return this.#active[0] !== null && this.#active[1] !== null ? this.#bothWaysRatio : 1
  }

  #run(untilMs: number): void {
    const seconds = (untilMs - this.#modelMs) / 1000
    const speed = this.#speed()
    for (const job of this.#active) {
      if (job === null) continue
      job.workSeconds -= seconds * speed
      job.busySeconds += seconds
    }
    this.#modelMs = untilMs
  }

  /** Engine seconds left of the active job that is nearest to its end; Infinity when idle. */
  #leastWork(): number {
    const [store, load] = this.#active
    const storeWork = store === null ? Number.POSITIVE_INFINITY : store.workSeconds
    const loadWork = load === null ? Number.POSITIVE_INFINITY : load.workSeconds
    return Math.min(storeWork, loadWork)
  }

  #end(way: 0 | 1, ended: J[]): void {
    const job = this.#active[way]!
    this.#active[way] = null
    this.#pending.delete(job.sequence)
    ended.push(job)
  }

  #startReady(): void {
    for (const way of [0, 1] as const) {
      const head = this.#queues[way][0]
      if (this.#active[way] !== null || head === undefined) continue
      if (head.after.some((sequence) => this.#pending.has(sequence))) continue
      this.#active[way] = this.#queues[way].shift()!
    }
  }
}
