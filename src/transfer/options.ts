/** Limits of the movers between tiers. Units in the names. */
export interface TransferOptions {
  /** Bytes of L2 stores in flight to one adapter that has no limit of its own. */
  readonly storeBudgetBytes: number
  /** Bytes of shards waiting for one adapter that has no limit of its own; further ones are skipped and counted. */
  readonly storePendingBytes: number
  /** Batches of L2 stores in flight to one adapter; what waits meanwhile goes in larger batches. */
  readonly storeBatches: number
  /** Shards waiting for one adapter; further ones are skipped and counted. */
  readonly storeQueueShards: number
  /** Shards of one store or load batch at most. */
  readonly batchShards: number
  /** L1 bytes reserved by L2 loads in flight, over all adapters. */
  readonly loadBudgetBytes: number
  /** Bytes of loads that wait for one adapter's budget; further ones are skipped and counted. */
  readonly loadPendingBytes: number
  /** Loads that would take longer than computing so many tokens a second are skipped. 0 = none is. */
  readonly skipSlowerTokensPerSecond: number
  /** Fill level of L1, 0..1, from which on write-back adapters get the oldest chunks that they lack. */
  readonly writeBackRatio: number
  /** Prefetch jobs at most; a lookup past it is answered from L0 and L1 alone. */
  readonly prefetchJobs: number
  /** The store loop's period; it is also woken by every commit. */
  readonly storeIntervalMs: number
}
