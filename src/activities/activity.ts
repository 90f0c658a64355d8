import type { Action, ActorType, ResourceType } from './actions.ts'

/** One line of the audit trail: who did what to which resource, and when. The interface document, section 2.1. */
export interface Activity {
  readonly activityId: string
  readonly actorType: string
  readonly userId: string
  readonly action: string
  readonly resourceType: string
  readonly resourceId: string
  readonly description: string
  readonly metadata: Readonly<Record<string, unknown>>
  /** ISO 8601, UTC, milliseconds. */
  readonly occurredAt: string
  readonly recordedAt: string
  readonly actorId: string
  readonly actorDisplay: string
}

export interface Actor {
  readonly type: ActorType
  /** Id of the token, `system`, or the name of the operator. */
  readonly id: string
  readonly userId: string
  /** For people. */
  readonly display: string
}

/** What a caller tells of an act; the store adds id and times. */
export interface ActivityDraft {
  readonly actor: Actor
  readonly action: Action
  readonly resourceType: ResourceType
  readonly resourceId: string
  /** One sentence for people. Cut at `TEXT_LENGTH_MAX`, as every other text. */
  readonly description: string
  /** Plain JSON. Dropped, with a note, when longer than `METADATA_LENGTH_MAX`. */
  readonly metadata?: Readonly<Record<string, unknown>>
  /** Milliseconds since 1970. Default: now. */
  readonly occurredAtMs?: number
}

/** Conditions that a record must all meet. Times are milliseconds since 1970 of `occurredAt`. */
export interface ActivityFilter {
  readonly userId?: string
  readonly action?: string
  readonly resourceType?: string
  readonly resourceId?: string
  /** Included. */
  readonly startMs?: number
  /** Excluded. */
  readonly endMs?: number
}

export interface ActivityPage {
  readonly activities: readonly Activity[]
  /** Every record that meets the filter, on any page. Exact. */
  readonly total: number
}

export const TEXT_LENGTH_MAX = 1024
export const METADATA_LENGTH_MAX = 16_384
/** Milliseconds since 1970 that a record can hold, the last one included: the year 2248. */
export const OCCURRED_MS_MAX = 2 ** 43 - 1

/** The audit trail as those see it who write to it and read it. */
export interface ActivityLog {
  /** Writes one record. It outlives a crash of the process and of the machine once this resolves. @throws CacheError */
  append(draft: ActivityDraft): Promise<Activity>
  /**
   * One page of the records that meet every condition, newest first by `occurredAt`, then by order of writing.
   *
   * @param page 1 upwards, of any size: a page past the end is empty.
   * @param size records a page, 1 upwards.
   */
  list(filter: ActivityFilter, page: bigint, size: number): Promise<ActivityPage>
}

/** The engine acting by itself. */
export const SYSTEM_ACTOR: Actor = { type: 'ACTOR_TYPE_SYSTEM', id: 'system', userId: 'system', display: 'kvtier' }
