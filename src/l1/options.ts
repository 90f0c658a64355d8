/** Eviction policies by name; see policies/. */
export const L1_POLICIES = ['lru', 's3-fifo', 'arc', 'adaptive'] as const
export type L1PolicyName = (typeof L1_POLICIES)[number]

/** Who shares a segment of shared memory, by name. */
export const L1_ISOLATIONS = ['none', 'model'] as const
export type L1Isolation = (typeof L1_ISOLATIONS)[number]

/** Sizes and limits of the L1 tier. Units in the names; `config/` gives flags and defaults. */
export interface L1Options {
  /** Bytes of the arena. */
  readonly capacityBytes: number
  /** `none` = all models share the arena; `model` = it is cut into equal parts, one for each model. */
  readonly isolation: L1Isolation
  /** How many parts that makes. The capacity is a multiple of it. */
  readonly isolationModels: number
  /** Bytes of one extent; a size class takes whole spans of extents. 0 = chosen from the capacity. */
  readonly extentBytes: number
  /** Chunks the index can hold, ghosts included. */
  readonly indexCapacityChunks: number
  /** Shards the index can hold; one for each rank of a chunk. */
  readonly indexCapacityShards: number
  /** Fill level at which the eviction loop runs, and down to which it trims. 0..1 */
  readonly evictionHighRatio: number
  readonly evictionLowRatio: number
  readonly evictionIntervalMs: number
  readonly policy: L1PolicyName
  /** Evicted chunks remembered for the evict-reuse gap. */
  readonly ghostCapacityChunks: number
  /** Live leases at most, and chunk entries over all of them. */
  readonly leaseCapacity: number
  readonly leaseEntryCapacity: number
  /** One of this many chunks (by hash) has its lifecycle published on the bus. 1 = all. */
  readonly lifecycleSampleEvery: number
  /** Bytes that pins may hold, as a share of the capacity. 0..1 */
  readonly pinRatioMax: number
}
