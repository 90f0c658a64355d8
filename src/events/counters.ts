// Every exact number of the engine, by meaning, one list for each owner. The owner adds in place to a
// `CounterTable` of these fields; `metrics/` says which metric a field is. "Shard" = one stored object:
// the part of one chunk that belongs to one worker rank (metrics.md calls it a chunk).

/** One row a tenant. Owner: engine/. */
export const ENGINE_TENANT_FIELDS = [
  'lookups',
  'requestedTokens',
  'hitTokens',
  'hitTokensL0',
  'hitTokensL1',
  'hitTokensL2',
  'loadedShards', // delivered back into service at retrieve end
  'l1QuotaBytes', // of the salt, over all its models; 0 = no limit
  'l2QuotaBytes', // the same, in each adapter
] as const

/** One row. Owner: engine/ and transfer/. */
export const ENGINE_FIELDS = [
  'activePrefetchJobs',
  'activePeerLookupJobs',
  'peerAdapters', // attached; not exported: it makes the gauge of peer lookups appear
] as const

/** One row a tenant. Owner: l1/. */
export const L1_TENANT_FIELDS = [
  'readShards',
  'writeShards',
  'recoveredShards',
  'evictedShards',
  'removedClear',
  'removedDelete',
  'removedQuota',
  'removedCorrupt',
  'readFailureExpired',
  'readFailureChecksum',
  'readFailureLost',
  'allocationFailureStore',
  'allocationFailureLoad',
  'quotaRefusals', // reservations cut short by the quota of their salt
  'usageBytes', // resident + reserved + quarantined + removed-but-leased, of this tenant
] as const

/** One row. Owner: l1/. */
export const L1_FIELDS = [
  'capacityBytes',
  'usageBytes',
  'usageRatio',
  'quarantinedBytes', // of writers that let their lease expire
  'quarantinedReadBytes', // the same of readers; part of what is resident or removed
  'loopTicks',
  'loopTriggered',
  'leasesExpired',
  'ghostsExpired',
  'checksumFailures',
] as const

/** One row a tenant. Owner: l0/. */
export const L0_TENANT_FIELDS = ['allocatedBlocks', 'reusedBlocks', 'evictedBlocks', 'allocationFailures'] as const

/** One row. Owner: l0/. */
export const L0_FIELDS = [
  'capacityBlocks',
  'usedBlocks',
  'freeBlocks',
  'observedBlocks', // of inference servers that report theirs
  'observedUsedBlocks',
] as const

/** One row a tenant. Owner: transfer/l0-l1-copier, and engine/ for clients that copy by themselves. Stores go down (L0 to L1), loads go up. */
export const COPY_TENANT_FIELDS = ['storeBytes', 'storeBusySeconds', 'loadBytes', 'loadBusySeconds'] as const

/** One row an adapter. Owner: l2/adapter-set. */
export const L2_FIELDS = [
  'usageBytes',
  'objects',
  'capacityBytes', // 0 = no limit
  'inflightStores', // batches
  'inflightLoads', // batches
  'inflightLoadBytes', // L1 bytes reserved by those loads
  'inflightStoreObjects',
  'inflightLoadObjects',
  'evictedObjects',
  'quotaEvictedObjects',
  'checksumFailures',
  'circuitState', // 0 closed, 1 half open, 2 open
  'state', // 0 active, 1 draining, 2 failed
  'activeJobs', // verifications, evacuations and counts that read this adapter
  'scrubbedObjects', // read and verified by a job
  'evacuatedObjects', // copied from this adapter to another
  'evacuatedBytes',
  'evacuationFailedObjects',
] as const

/** One row an adapter and tenant: row = adapter row x tenant rows + tenant. Owner: l2/adapter-set. */
export const L2_TENANT_FIELDS = [
  'storeSubmittedRequests',
  'storeSubmittedObjects',
  'storeCompletedRequests',
  'storeCompletedObjects', // already-present ones included
  'storeFailedError',
  'storeFailedTimeout',
  'storeFailedFull',
  'storeFailedCorrupt', // altered in L1 before it was written
  'storeFailedCancelled',
  'storeSkippedQueueFull', // never submitted
  'storeSkippedEvicted',
  'storeSkippedDraining',
  'storeSkippedCircuitOpen',
  'storeSkippedNotAdmitted', // touched too seldom
  'storeSkippedDirty', // evicted before a write-back adapter had them
  'lookupRequests',
  'lookupObjects',
  'hitObjects', // leading prefix, counted from the lookup's answer
  'loadSubmittedRequests',
  'loadSubmittedObjects',
  'loadCompletedRequests',
  'loadCompletedObjects',
  'failureL1Oom',
  'failureNotFound',
  'failureCorrupt',
  'failureError',
  'failureCancelled',
  'loadSkippedSlower', // never submitted
  'loadSkippedQueueFull',
  'storeBytes',
  'storeBusySeconds',
  'loadBytes',
  'loadBusySeconds',
  'usageBytes', // held, as the adapter last told
] as const

/** One row a state value. Owner: l2/adapter-set. */
export const L2_STATES = ['active', 'draining'] as const

/** One row a loop; the row order is `LOOPS`. Owner: the loop. */
export const LOOP_FIELDS = ['lastBeatMs', 'errors'] as const
export const LOOPS = ['eviction', 'lease_sweep', 'store', 'prefetch', 'event_bus'] as const

/** One row. Owner: metrics/, on the thread that drains the bus; read by engine/ and l1/. */
export const SAMPLING_FIELDS = [
  'askedBelow', // CHUNK_ASKED is wanted for tags whose `sampleValue` is below this; 2^32 = all
  'usedBelow', // the same of CHUNK_STORED and CHUNK_RETRIEVED
] as const

/** One row. Owner: events/tracer, on the data thread. */
export const SPAN_FIELDS = [
  'recorded',
  'droppedRing', // ended while the ring was full
  'droppedOpen', // not begun, or taken for left behind: too many are open
] as const

/** One row. Owner: server/push, on the thread that drains the ring. */
export const SPAN_PUSH_FIELDS = [
  'pushed', // taken by the receiver
  'droppedQueue', // the oldest, while the receiver was away
  'refused', // by the receiver
] as const

/** Adapters at most, over the life of a process: rows are never used twice. */
export const ADAPTER_ROWS = 64
