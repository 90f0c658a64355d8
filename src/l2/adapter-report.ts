import type { AdapterState, Attached, InFlight } from './attached.ts'
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
}

/** How a drain ended. */
export interface DrainReport {
  /** What the adapter is now: still draining, unless somebody changed it. */
  readonly state: AdapterState
  /** Nothing in flight refers to it. */
  readonly isDrained: boolean
  readonly left: InFlight
}

export function reportOf(attached: Attached): AdapterReport {
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
  }
}
