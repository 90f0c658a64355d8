// What the HTTP API answers about external storage, as far as the commands show it.

export interface AdapterAnswer {
  readonly name: string
  readonly type: string
  readonly state: string
  readonly origin: string
  readonly is_kept: boolean
  readonly usage_bytes: number
  readonly capacity_bytes: number
  readonly objects: number
  readonly inflight_stores: number
  readonly inflight_loads: number
  readonly abandoned: number
  readonly circuit: string
  readonly last_error: string
  readonly drain: {
    readonly phase: 'waiting' | 'drained' | 'deadline_passed'
    readonly elapsed_ms: number
    readonly remaining_ms: number
    readonly bytes_left: number
  } | null
  readonly evacuation: JobAnswer | null
}

export interface JobAnswer {
  readonly id: string
  readonly kind: 'verify' | 'stats' | 'evacuate'
  readonly adapter: string
  readonly target: string | null
  readonly state: 'running' | 'done' | 'cancelled' | 'failed'
  readonly elapsed_ms: number
  readonly objects_total: number
  readonly bytes_total: number
  readonly bytes_left: number
  readonly objects: number
  readonly bytes: number
  readonly ok: number
  readonly present: number
  readonly not_found: number
  readonly corrupt: number
  readonly failed: number
  readonly full: number
  readonly corrupt_objects: readonly {
    readonly model: string
    readonly cache_salt: string
    readonly rank: number
    readonly hash: string
  }[]
  readonly spaces: readonly {
    readonly model: string
    readonly cache_salt: string
    readonly ranks: number
    readonly object_bytes: number
    readonly objects: number
    readonly bytes: number
  }[]
  readonly error: string
}

/** Path of an adapter in the HTTP API. */
export function adapterPath(name: string, act = ''): string {
  return `/v1/l2/adapters/${encodeURIComponent(name)}${act}`
}
