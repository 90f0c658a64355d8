import type { AdapterState, Attached, Drain, InFlight } from './attached.ts'
import { CIRCUITS } from './circuit-breaker.ts'

/** One adapter as people see it. */
export interface AdapterReport {
  readonly name: string
  readonly type: string
  readonly state: AdapterState
  readonly usageBytes: number
  /** 0 = no limit. */
  readonly capacityBytes: number
  readonly objects: number
  readonly inflightStores: number
  readonly inflightLoads: number
  readonly inflightLoadBytes: number
  readonly inflightStoreBytes: number
  /** Batches that ended without the adapter, which may still touch their memory. */
  readonly abandoned: number
  readonly evictedObjects: number
  readonly checksumFailures: number
  readonly circuit: (typeof CIRCUITS)[number]
  /** What it failed with last; empty when it never did. */
  readonly lastError: string
  /** While it drains: how far it is. */
  readonly drain: DrainProgress | null
}

/** How far a drain is. */
export interface DrainProgress {
  /** `drained`: nothing referred to the adapter. `deadline_passed`: something still did; see the numbers beside it. */
  readonly phase: 'waiting' | 'drained' | 'deadline_passed'
  readonly elapsedMs: number
  /** Until the deadline; 0 when it has passed. */
  readonly remainingMs: number
}

/** How a removal ended. */
export interface RemovalReport {
  /** What was in flight when it began: a forced removal ends it. */
  readonly left: InFlight
  /** False: the backend did not close in time and was left to itself. */
  readonly isClosed: boolean
  /** What closing failed with; empty when it did not. */
  readonly error: string
}

/** How a drain ended. */
export interface DrainReport {
  /** What the adapter is now: still draining, unless somebody changed it. */
  readonly state: AdapterState
  /** Nothing in flight refers to it. */
  readonly isDrained: boolean
  readonly left: InFlight
}

export function reportOf(attached: Attached, nowMs: number): AdapterReport {
  const { bytes, objects, capacityBytes, evictedObjects, checksumFailures } = attached.adapter.usage()
  const inFlight = attached.inFlight()
  return {
    name: attached.name,
    type: attached.adapter.type,
    state: attached.state,
    usageBytes: bytes,
    capacityBytes,
    objects,
    inflightStores: inFlight.stores,
    inflightLoads: inFlight.loads,
    inflightLoadBytes: inFlight.loadBytes,
    inflightStoreBytes: inFlight.storeBytes,
    abandoned: inFlight.abandoned,
    evictedObjects,
    checksumFailures,
    circuit: CIRCUITS[attached.circuit.state]!,
    lastError: attached.lastError,
    drain: attached.drain === undefined ? null : progressOf(attached.drain, nowMs),
  }
}

function progressOf({ phase, startedMs, deadlineMs }: Drain, nowMs: number): DrainProgress {
  return { phase, elapsedMs: nowMs - startedMs, remainingMs: Math.max(0, deadlineMs - nowMs) }
}
