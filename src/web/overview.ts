/**
 * One engine at one moment, as `GET /v1/overview` tells it: what the dashboard page draws. Everything is read from the
 * shared cells. Numbers that only grow are totals since the start; whoever wants rates takes two of these.
 */
export interface Overview {
  readonly version: string
  /** ISO 8601. Another value than before: another process, whose totals began at 0. */
  readonly started_at: string
  /** By the engine's clock, which never jumps: rates are differences over differences of this. */
  readonly time_ms: number
  /** The L0 device; null when there is none. */
  readonly device: { readonly kind: string; readonly name: string } | null
  readonly tokens: {
    readonly lookups: number
    readonly requested: number
    readonly hit: number
    readonly hit_l0: number
    readonly hit_l1: number
    readonly hit_l2: number
  }
  readonly l1: {
    readonly capacity_bytes: number
    readonly usage_bytes: number
    readonly quarantined_bytes: number
    readonly read_chunks: number
    readonly written_chunks: number
    readonly evicted_chunks: number
  }
  /** Transfers: stores go down, loads go up. */
  readonly paths: {
    readonly l0_l1_store: PathTotals
    readonly l0_l1_load: PathTotals
    readonly l2_store: PathTotals
    readonly l2_load: PathTotals
  }
  /** Those attached, in order of their first appearance. */
  readonly adapters: readonly AdapterOverview[]
  /** What an L1 of other sizes would have hit since the start, of the chunks asked for. */
  readonly would_hit: {
    /** Chunks asked for; 0 = nothing to tell yet, and no points. */
    readonly asked_chunks: number
    readonly points: readonly { readonly l1_bytes: number; readonly ratio: number }[]
  }
  /** Those that asked for the most tokens, largest first. */
  readonly tenants: readonly {
    readonly model: string
    readonly cache_salt: string
    readonly requested_tokens: number
    readonly hit_tokens: number
    readonly l1_usage_bytes: number
  }[]
  /** (model, salt) pairs that asked for anything, or hold anything. */
  readonly tenants_total: number
}

export interface PathTotals {
  readonly bytes: number
  /** Of transfers, which may run side by side. */
  readonly busy_seconds: number
}

export interface AdapterOverview {
  readonly name: string
  readonly state: 'active' | 'draining' | 'failed'
  readonly circuit: 'closed' | 'half_open' | 'open'
  readonly usage_bytes: number
  /** 0 = no limit. */
  readonly capacity_bytes: number
  readonly objects: number
  readonly inflight_stores: number
  readonly inflight_loads: number
  readonly stored_objects: number
  readonly loaded_objects: number
  /** Stores and loads. */
  readonly failed_objects: number
}
