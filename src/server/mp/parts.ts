import type { Clock } from '../../core/clock.ts'
import type { Engine } from '../../engine/engine.ts'
import type { ModelRegistry } from '../../engine/model-registry.ts'
import type { PromptHasher } from '../../engine/prompt-hasher.ts'
import type { WireContext } from '../../protocol/mp/messages.ts'
import type { ReplyPayload } from '../../protocol/mp/replies.ts'
import type { InstanceTable } from './instances.ts'
import type { MpCounts } from './mp-counts.ts'
import type { MpSessions } from './mp-sessions.ts'

/** Where a line for the operator goes. */
export interface MpLog {
  info(detail: object, text: string): void
  warn(detail: object, text: string): void
}

/** The memory of L1, by the name that other processes map; '' when they cannot. See `SharedSegment`. */
export interface WireSegment {
  readonly name: string
  readonly bytes: number
  restoreName(): void
  isOnlyOurs(): boolean
}

/** What the handlers of the wire work on. */
export interface MpParts {
  readonly engine: Engine
  readonly models: ModelRegistry
  readonly sessions: MpSessions
  readonly hasher: PromptHasher
  readonly instances: InstanceTable
  /** Bytes of L1 at most that workers may hold without having committed, expired leases included. */
  readonly heldBytesMax: number
  readonly clock: Clock
  /** How long a question for the answer of a lookup may wait while its prompt is hashed. */
  readonly queryHoldMs: number
  readonly counts: MpCounts
  /** By part of L1: see `ModelParts`. */
  readonly segments: readonly WireSegment[]
  readonly log: MpLog
  readonly journal: WorkerJournal | null
  /** Told when a client had everything cleared, with what was removed. */
  readonly onCleared?: ((cleared: object) => void) | undefined
  /** Told of a worker whose process is gone, with what it held. */
  readonly onGone?: ((worker: GoneWorker) => void) | undefined
}

/** A worker whose process was proved to be gone. Bytes are those of its transfers, which are freed. */
export interface GoneWorker {
  readonly worker: string
  readonly model: string
  readonly transfers: number
}

/** Where it is written down who is registered, for the next engine. */
export interface WorkerJournal {
  worker(worker: RegisteredWorker): void
  gone(instanceId: bigint): void
}

/** A worker, as an earlier engine knew it. */
export interface RegisteredWorker {
  readonly context: WireContext
  /** Of its leases. */
  readonly owner: number
  /** `Generation.clients` of its numbering of operations. */
  readonly generation: string
}

/** A refusal that the client shall notice: see `Dispatcher`. */
export const REFUSED = Symbol('refused')

/** What a handler answers. */
export type Reply = ReplyPayload | typeof REFUSED
