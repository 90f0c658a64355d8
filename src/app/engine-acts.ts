import type { ActivityDraft } from '../activities/activity.ts'
import { SYSTEM_ACTOR } from '../activities/activity.ts'
import type { Clock } from '../core/clock.ts'
import type { Engine } from '../engine/engine.ts'
import type { AdapterState } from '../l2/attached.ts'
import type { JobReport } from '../l2/jobs/job.ts'
import type { GoneWorker } from '../server/mp/parts.ts'
import type { LateWorker } from '../server/mp/quarantine.ts'

type Act = Omit<ActivityDraft, 'actor' | 'occurredAtMs'>

export interface EngineActsParts {
  readonly engine: Engine
  /** Workers whose leases have expired. */
  readonly lateWorkers: () => readonly LateWorker[]
}

/** A client of the MP wire: it has no name that could be checked. */
const WIRE_ACTOR = { type: 'ACTOR_TYPE_CLIENT', id: '', userId: '', display: 'a client of the MP wire' } as const

/**
 * What the engine does by itself, or by order of the MP wire, as the activity log has it. On the data thread: an act is
 * posted to the service thread, and nothing waits for the disk.
 */
export class EngineActs {
  #post: ((draft: ActivityDraft) => void) | undefined
  readonly #early: ActivityDraft[] = []
  readonly #clock: Clock
  #watched: EngineActsParts | undefined
  #quarantined = new Set<string>()
  readonly #corrupt = new Map<string, number>()
  #corruptL1 = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Where acts go from now on; those before go there first. */
  postTo(post: (draft: ActivityDraft) => void): void {
    this.#post = post
    for (const draft of this.#early.splice(0)) post(draft)
  }

  /** What `sweep` looks at. */
  watch(parts: EngineActsParts): void {
    this.#watched = parts
    this.#corruptL1 = parts.engine.cells.l1.get(0, 'checksumFailures')
  }

  adapterState(name: string, state: AdapterState): void {
    if (state !== 'failed') return
    this.#record({
      action: 'ACTIVITY_ACTION_ADAPTER_FAIL',
      resourceType: 'adapter',
      resourceId: name,
      description: `The adapter ${name} has failed and is not used.`,
    })
  }

  drainEnded(name: string, isDrained: boolean, left: object): void {
    this.#record({
      action: 'ACTIVITY_ACTION_ADAPTER_DRAIN_END',
      resourceType: 'adapter',
      resourceId: name,
      description: `The drain of the adapter ${name} ended${isDrained ? '' : ' with work left'}.`,
      metadata: { isDrained, left },
    })
  }

  jobEnded({ id, kind, adapter, target, state, counts, error }: JobReport): void {
    this.#record({
      action: 'ACTIVITY_ACTION_ADAPTER_JOB_END',
      resourceType: 'adapter',
      resourceId: adapter,
      description: `${id} ended: ${kind} ${adapter}, ${state}.`,
      metadata: { jobId: id, kind, target, state, ...counts, error },
    })
  }

  wireCleared(cleared: object): void {
    this.#record(
      {
        action: 'ACTIVITY_ACTION_CACHE_CLEAR',
        resourceType: 'cache',
        resourceId: '',
        description: 'Cleared l0, l1, l2 of every model.',
        metadata: { ...cleared },
      },
      WIRE_ACTOR,
    )
  }

  /** The process of a worker is gone, and what was kept for it is free. */
  workerGone({ worker, model, transfers }: GoneWorker): void {
    this.#record({
      action: 'ACTIVITY_ACTION_QUARANTINE_RELEASE',
      resourceType: 'worker',
      resourceId: worker,
      description: `The process of a worker of model ${model} is gone: no other process has the segment open.`,
      metadata: { model, transfers },
    })
  }

  /** Finds what was quarantined since the last call. Run by the lease loop. */
  sweep(): void {
    if (this.#watched === undefined) return
    this.#sweepWorkers(this.#watched)
    this.#sweepChecksums(this.#watched)
  }

  #sweepWorkers({ engine, lateWorkers }: EngineActsParts): void {
    const { l1 } = engine.cells
    const isAny = l1.get(0, 'quarantinedBytes') + l1.get(0, 'quarantinedReadBytes') > 0
    if (!isAny && this.#quarantined.size === 0) return
    const late = lateWorkers()
    for (const { worker, model, isSilent, writeBytes, readBytes } of late) {
      if (this.#quarantined.has(worker)) continue
      this.#record({
        action: 'ACTIVITY_ACTION_QUARANTINE',
        resourceType: 'worker',
        resourceId: worker,
        description: `Slots of a worker of model ${model} are quarantined: its leases expired while it may be copying.`,
        metadata: { model, isSilent, writeBytes, readBytes },
      })
    }
    this.#quarantined = new Set(late.map(({ worker }) => worker))
  }

  #sweepChecksums({ engine }: EngineActsParts): void {
    const l1Failures = engine.cells.l1.get(0, 'checksumFailures')
    if (l1Failures > this.#corruptL1) {
      this.#recordCorrupt('cache', '', l1Failures - this.#corruptL1, 'chunks in L1')
    }
    this.#corruptL1 = l1Failures
    for (const { name, adapter } of engine.adapters.all()) {
      const failures = adapter.usage().checksumFailures
      const known = this.#corrupt.get(name) ?? 0
      if (failures > known) this.#recordCorrupt('adapter', name, failures - known, `objects of the adapter ${name}`)
      this.#corrupt.set(name, failures)
    }
  }

  #recordCorrupt(resourceType: 'cache' | 'adapter', resourceId: string, count: number, what: string): void {
    this.#record({
      action: 'ACTIVITY_ACTION_QUARANTINE',
      resourceType,
      resourceId,
      description: `${count} corrupt ${what} were set aside.`,
      metadata: { count },
    })
  }

  #record(act: Act, actor: ActivityDraft['actor'] = SYSTEM_ACTOR): void {
    const draft = { ...act, actor, occurredAtMs: this.#clock.wallMs() }
    if (this.#post === undefined) this.#early.push(draft)
    else this.#post(draft)
  }
}
