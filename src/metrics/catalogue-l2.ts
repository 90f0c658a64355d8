import { ADAPTER, ADAPTER_TENANT, cell, counter, gauge, split, TENANT } from './define.ts'

const STORE_ENDED = { visibleWith: ['storeCompletedRequests'] } as const
const LOAD_ENDED = { visibleWith: ['loadCompletedRequests'] } as const
const LOOKED_UP = { visibleWith: ['lookupRequests'] } as const

/** External storage: stores and what the adapters hold. */
export const L2_METRICS = [
  gauge('l2_usage_bytes', {
    help: 'Bytes of objects held in L2.',
    labels: ADAPTER,
    always: true,
    from: [cell('l2', 'usageBytes')],
  }),
  gauge('l2_adapters', {
    help: 'L2 adapters on the store controller, by state.',
    labels: ['state'],
    always: true,
    from: split('l2States', 'state', { active: 'active', draining: 'draining' }),
  }),
  gauge('num_inflight_l2_stores', {
    help: 'Store operations submitted to L2 and not yet completed.',
    labels: ADAPTER,
    always: true,
    from: [cell('l2', 'inflightStores')],
  }),
  gauge('num_inflight_l2_loads', {
    help: 'Load operations submitted to L2 and not yet completed.',
    labels: ADAPTER,
    always: true,
    from: [cell('l2', 'inflightLoads')],
  }),
  gauge('inflight_load_memory_usage_bytes', {
    help: 'Bytes of L1 reserved by loads in flight.',
    labels: ADAPTER,
    always: true,
    from: [cell('l2', 'inflightLoadBytes')],
  }),
  counter('l2_store_submitted_requests_total', {
    help: 'Store batches handed to L2.',
    labels: ADAPTER_TENANT,
    from: [cell('l2Tenants', 'storeSubmittedRequests')],
  }),
  counter('l2_store_submitted_objects_chunks_total', {
    help: 'Chunks handed to L2 to be stored.',
    labels: ADAPTER_TENANT,
    from: [cell('l2Tenants', 'storeSubmittedObjects')],
  }),
  counter('l2_store_completed_requests_total', {
    help: 'Store batches that ended, well or not.',
    labels: ADAPTER_TENANT,
    from: [cell('l2Tenants', 'storeCompletedRequests')],
  }),
  counter('l2_store_completed_objects_chunks_total', {
    help: 'Chunks written to L2, those already there included.',
    labels: ADAPTER_TENANT,
    from: [cell('l2Tenants', 'storeCompletedObjects', STORE_ENDED)],
  }),
  counter('l2_load_completed_requests_total', {
    help: 'Load batches that ended, well or not.',
    labels: ADAPTER_TENANT,
    from: [cell('l2Tenants', 'loadCompletedRequests')],
  }),
  gauge('l2_objects', {
    help: 'Objects held in L2.',
    labels: ADAPTER,
    extension: true,
    always: true,
    from: [cell('l2', 'objects')],
  }),
  gauge('l2_capacity_bytes', {
    help: 'Capacity limit of an L2 adapter; 0 stands for none.',
    labels: ADAPTER,
    extension: true,
    always: true,
    from: [cell('l2', 'capacityBytes')],
  }),
  gauge('l2_inflight_store_chunks', {
    help: 'Chunks of the stores in flight to L2.',
    labels: ADAPTER,
    extension: true,
    always: true,
    from: [cell('l2', 'inflightStoreObjects')],
  }),
  gauge('l2_inflight_load_chunks', {
    help: 'Chunks of the loads in flight from L2.',
    labels: ADAPTER,
    extension: true,
    always: true,
    from: [cell('l2', 'inflightLoadObjects')],
  }),
  gauge('l2_circuit_state', {
    help: 'Circuit breaker of an L2 adapter: 0 closed, 1 half open, 2 open.',
    labels: ADAPTER,
    extension: true,
    always: true,
    from: [cell('l2', 'circuitState')],
  }),
  gauge('l2_adapter_state', {
    help: 'State of an L2 adapter: 0 active, 1 draining, 2 failed. A removed one has no series.',
    labels: ADAPTER,
    extension: true,
    always: true,
    from: [cell('l2', 'state')],
  }),
  gauge('l2_active_jobs', {
    help: 'Verifications, evacuations and counts that read an L2 adapter.',
    labels: ADAPTER,
    extension: true,
    always: true,
    from: [cell('l2', 'activeJobs')],
  }),
  counter('l2_scrubbed_chunks_total', {
    help: 'Objects that a job read from L2 to verify them.',
    labels: ADAPTER,
    extension: true,
    from: [cell('l2', 'scrubbedObjects')],
  }),
  counter('l2_evacuated_chunks_total', {
    help: 'Objects copied from an L2 adapter to another one.',
    labels: ADAPTER,
    extension: true,
    from: [cell('l2', 'evacuatedObjects')],
  }),
  counter('l2_evacuated_bytes_total', {
    help: 'Bytes of objects copied from an L2 adapter to another one.',
    labels: ADAPTER,
    extension: true,
    from: [cell('l2', 'evacuatedBytes')],
  }),
  counter('l2_evacuation_failed_chunks_total', {
    help: 'Objects that an evacuation could not copy; they stay where they are.',
    labels: ADAPTER,
    extension: true,
    from: [cell('l2', 'evacuationFailedObjects')],
  }),
  counter('l2_store_failed_objects_chunks_total', {
    help: 'Chunks that could not be stored in L2.',
    labels: [...ADAPTER_TENANT, 'reason'],
    extension: true,
    from: split('l2Tenants', 'reason', {
      error: 'storeFailedError',
      timeout: 'storeFailedTimeout',
      full: 'storeFailedFull',
      corrupt: 'storeFailedCorrupt',
      cancelled: 'storeFailedCancelled',
    }),
  }),
  counter('l2_store_skipped_chunks_total', {
    help: 'Chunks that were never handed to L2.',
    labels: [...ADAPTER_TENANT, 'reason'],
    extension: true,
    from: split('l2Tenants', 'reason', {
      queue_full: 'storeSkippedQueueFull',
      evicted: 'storeSkippedEvicted',
      draining: 'storeSkippedDraining',
      circuit_open: 'storeSkippedCircuitOpen',
      not_admitted: 'storeSkippedNotAdmitted',
      dirty: 'storeSkippedDirty',
    }),
  }),
  gauge('l2_tenant_usage_bytes', {
    help: 'Bytes held in an L2 adapter by one tenant, of adapters that keep account of them; told once a second.',
    labels: ADAPTER_TENANT,
    extension: true,
    from: [cell('l2Tenants', 'usageBytes')],
  }),
  gauge('l2_tenant_quota_bytes', {
    help: 'Bytes that the cache salt of a tenant may hold in each L2 adapter, over all its models.',
    labels: TENANT,
    extension: true,
    from: [cell('engineTenants', 'l2QuotaBytes')],
  }),
  counter('l2_quota_evicted_chunks_total', {
    help: 'Objects that an L2 adapter evicted because their cache salt was over its quota.',
    labels: ADAPTER,
    extension: true,
    from: [cell('l2', 'quotaEvictedObjects')],
  }),
  counter('l2_evicted_chunks_total', {
    help: 'Objects that an L2 adapter evicted for room.',
    labels: ADAPTER,
    extension: true,
    from: [cell('l2', 'evictedObjects')],
  }),
] as const

/** External storage: lookups and loads. */
export const PREFETCH_METRICS = [
  counter('l2_prefetch_lookup_requests_total', {
    help: 'Times an L2 adapter was asked which chunks it holds.',
    labels: ADAPTER_TENANT,
    from: [cell('l2Tenants', 'lookupRequests')],
  }),
  counter('l2_prefetch_lookup_objects_chunks_total', {
    help: 'Chunks an L2 adapter was asked for.',
    labels: ADAPTER_TENANT,
    from: [cell('l2Tenants', 'lookupObjects', LOOKED_UP)],
  }),
  counter('l2_prefetch_hit_chunks_total', {
    help: 'Chunks of the leading prefix found in an L2 lookup.',
    labels: ADAPTER_TENANT,
    from: [cell('l2Tenants', 'hitObjects', LOOKED_UP)],
  }),
  counter('l2_prefetch_load_submitted_requests_total', {
    help: 'Load batches submitted to L2.',
    labels: ADAPTER_TENANT,
    from: [cell('l2Tenants', 'loadSubmittedRequests')],
  }),
  counter('l2_prefetch_load_submitted_objects_chunks_total', {
    help: 'Chunks submitted to be loaded from L2.',
    labels: ADAPTER_TENANT,
    from: [cell('l2Tenants', 'loadSubmittedObjects')],
  }),
  counter('l2_prefetch_load_completed_chunks_total', {
    help: 'Chunks loaded from L2, verified and admitted into L1.',
    labels: ADAPTER_TENANT,
    from: [cell('l2Tenants', 'loadCompletedObjects', LOAD_ENDED)],
  }),
  counter('l2_prefetch_failure_chunks_total', {
    help: 'Chunks found in L2 that did not reach L1.',
    labels: [...ADAPTER_TENANT, 'reason'],
    from: split('l2Tenants', 'reason', {
      l1_oom: 'failureL1Oom',
      not_found: 'failureNotFound',
      corrupt: 'failureCorrupt',
      error: 'failureError',
      cancelled: 'failureCancelled',
    }),
  }),
  counter('l2_load_skipped_chunks_total', {
    help: 'Chunks found in L2 that were not loaded: computing them is faster, or too many loads wait.',
    labels: [...ADAPTER_TENANT, 'reason'],
    extension: true,
    from: split('l2Tenants', 'reason', { slower: 'loadSkippedSlower', queue_full: 'loadSkippedQueueFull' }),
  }),
] as const
