/**
 * External storage as the HTTP service operates it: what adapters are attached, their life, and jobs over all objects
 * of one. Lives on the data thread, like `EnginePort`; everything passed and returned can be structured-cloned.
 *
 *   add -> active --drain--> draining --remove--> removed
 *             ^---undrain------'                     a failed one can only be removed
 *
 * A CacheError is thrown for every refusal: NOT_FOUND, BAD_REQUEST, L2_NAME_TAKEN, L2_BUSY, L2_DRAINING, L2_*.
 */
export interface StoragePort {
  /** In the order they are asked. */
  adapters(): Promise<AdapterInfo[]>
  adapter(name: string): Promise<AdapterInfo>
  /** Opens and attaches an adapter, and keeps it for the next start. @param given its options, as a config file has them. */
  addAdapter(given: Readonly<Record<string, unknown>>): Promise<AdapterInfo>
  /** Returns at once: `adapter` tells how far it is. */
  drainAdapter(name: string, how: DrainRequest): Promise<AdapterInfo>
  /** Also ends an evacuation of its objects. */
  undrainAdapter(name: string): Promise<AdapterInfo>
  removeAdapter(name: string, isForced: boolean): Promise<RemovedAdapter>
  /** Objects of an adapter, a page at a time. @param cursor '' for the first page. */
  objects(name: string, cursor: string, countMax: number): Promise<ObjectList>

  /** Returns at once: `job` tells how far it is. */
  startJob(request: JobOrder): Promise<JobInfo>
  /** Running and recent ones, oldest first. */
  jobs(): Promise<JobInfo[]>
  job(id: string): Promise<JobInfo>
  /** Asks a job to end. @throws CacheError NOT_FOUND for one that is not known or has ended */
  cancelJob(id: string): Promise<JobInfo>

  /** For the detail of readiness. */
  health(): Promise<AdapterReadiness[]>
}

export type AdapterStateName = 'active' | 'draining' | 'removed' | 'failed'
export type CircuitName = 'closed' | 'half_open' | 'open'

export interface AdapterHealth {
  readonly name: string
  readonly state: AdapterStateName
  readonly circuit: CircuitName
}

export interface AdapterReadiness extends AdapterHealth {
  /** Its server was reached since the adapter was attached. */
  readonly reached: boolean
}

export interface AdapterInfo extends AdapterHealth {
  readonly type: string
  /** `config`: it comes back at the next start. `runtime`: it was added while an engine ran, and is kept until removed. */
  readonly origin: 'config' | 'runtime'
  /** The next start attaches it. Not so when it was added under the name of one of the configuration. */
  readonly isKept: boolean
  /** Without secrets. */
  readonly options: Readonly<Record<string, unknown>>
  readonly usageBytes: number
  /** 0 = no limit. */
  readonly capacityBytes: number
  readonly objects: number
  readonly evictedObjects: number
  readonly checksumFailures: number
  readonly inflightStores: number
  readonly inflightStoreBytes: number
  readonly inflightLoads: number
  readonly inflightLoadBytes: number
  /** Batches that ended without the adapter and may still touch their memory. */
  readonly abandoned: number
  /** Empty when it never failed. */
  readonly lastError: string
  /** Only while it drains. */
  readonly drain: {
    readonly phase: 'waiting' | 'drained' | 'deadline_passed'
    readonly elapsedMs: number
    readonly remainingMs: number
  } | null
  /** The newest evacuation of its objects. */
  readonly evacuation: JobInfo | null
}

export interface DrainRequest {
  readonly deadlineMs: number
  /** Name of the adapter that gets the objects. */
  readonly evacuateTo?: string
  /** Bytes a second of the evacuation; 0 = no limit. */
  readonly rateBytes?: number
}

export interface RemovedAdapter {
  /** In flight when it was removed. */
  readonly left: {
    readonly stores: number
    readonly storeBytes: number
    readonly loads: number
    readonly loadBytes: number
    readonly others: number
    readonly abandoned: number
  }
  /** False: its backend did not close in time and was left to itself. */
  readonly isClosed: boolean
  /** What closing failed with, or empty. */
  readonly error: string
  /** It is in the configuration, and comes back at the next start. */
  readonly returnsAtStart: boolean
}

export interface ObjectList {
  readonly objects: readonly {
    readonly model: string
    readonly salt: string
    readonly ranks: number
    readonly rank: number
    /** Of the payload. */
    readonly bytes: number
    /** 64 hex digits each; the parent of a first chunk is all 0. */
    readonly hash: string
    readonly parent: string
  }[]
  /** Null after the last page. */
  readonly cursor: string | null
}

export interface JobOrder {
  readonly kind: 'verify' | 'stats' | 'evacuate'
  readonly adapter: string
  readonly target?: string
  readonly rateBytes?: number
}

export interface JobInfo {
  readonly id: string
  readonly kind: JobOrder['kind']
  readonly adapter: string
  readonly target: string | null
  readonly state: 'running' | 'done' | 'cancelled' | 'failed'
  readonly elapsedMs: number
  readonly objectsTotal: number
  readonly bytesTotal: number
  readonly bytesLeft: number
  readonly counts: {
    readonly objects: number
    readonly bytes: number
    readonly ok: number
    readonly present: number
    readonly notFound: number
    readonly corrupt: number
    readonly failed: number
    readonly full: number
  }
  readonly corrupt: readonly {
    readonly model: string
    readonly salt: string
    readonly rank: number
    readonly hash: string
  }[]
  readonly spaces: readonly {
    readonly model: string
    readonly salt: string
    readonly ranks: number
    readonly shardBytes: number
    readonly objects: number
    readonly bytes: number
  }[]
  readonly error: string
}
