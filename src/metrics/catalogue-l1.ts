import { cell, counter, gauge, NONE, split, TENANT } from './define.ts'

/** Host memory. */
export const L1_METRICS = [
  gauge('l1_usage_ratio', {
    help: 'Share of the L1 arena in use, reserved slots included, 0 to 1.',
    labels: NONE,
    always: true,
    from: [cell('l1', 'usageRatio')],
  }),
  gauge('l1_memory_usage_bytes', {
    help: 'Bytes held in L1, reserved slots included.',
    labels: NONE,
    always: true,
    from: [cell('l1', 'usageBytes')],
  }),
  counter('l1_read_chunks_total', {
    help: 'Chunks served from L1 to a client or to L0.',
    labels: TENANT,
    from: [cell('l1Tenants', 'readShards')],
  }),
  counter('l1_write_chunks_total', {
    help: 'Chunks that became readable in L1, by a store or a load.',
    labels: TENANT,
    from: [cell('l1Tenants', 'writeShards')],
  }),
  counter('l1_evicted_chunks_total', {
    help: 'Chunks removed from L1 for room.',
    labels: TENANT,
    from: [cell('l1Tenants', 'evictedShards')],
  }),
  counter('l1_read_failure_chunks_total', {
    help: 'Promised chunks that L1 could not serve.',
    labels: [...TENANT, 'reason'],
    from: split('l1Tenants', 'reason', {
      expired: 'readFailureExpired',
      checksum: 'readFailureChecksum',
      lost: 'readFailureLost',
    }),
  }),
  counter('l1_eviction_loop_ticks_total', {
    help: 'Cycles of the eviction loop.',
    labels: NONE,
    from: [cell('l1', 'loopTicks')],
  }),
  counter('l1_eviction_loop_triggered_total', {
    help: 'Cycles of the eviction loop in which L1 was full, or a reservation had to evict, and the policy ran.',
    labels: NONE,
    from: [cell('l1', 'loopTriggered')],
  }),
  gauge('l1_capacity_bytes', {
    help: 'Size of the L1 arena.',
    labels: NONE,
    extension: true,
    always: true,
    from: [cell('l1', 'capacityBytes')],
  }),
  gauge('l1_tenant_usage_bytes', {
    help: 'Bytes held in L1 by one tenant.',
    labels: TENANT,
    extension: true,
    from: [cell('l1Tenants', 'usageBytes', { visibleWith: ['writeShards', 'recoveredShards'] })],
  }),
  gauge('l1_tenant_quota_bytes', {
    help: 'Bytes that the cache salt of a tenant may hold in L1, over all its models.',
    labels: TENANT,
    extension: true,
    from: [cell('engineTenants', 'l1QuotaBytes')],
  }),
  gauge('l1_quarantined_bytes', {
    help: 'Bytes of L1 whose writer or reader let its lease expire and may not be done: not used again until it is.',
    labels: ['holder'],
    extension: true,
    from: split(
      'l1',
      'holder',
      { writer: 'quarantinedBytes', reader: 'quarantinedReadBytes' },
      { visibleWith: ['leasesExpired'] },
    ),
  }),
  counter('l1_removed_chunks_total', {
    help: 'Chunks removed from L1 for another reason than room.',
    labels: [...TENANT, 'reason'],
    extension: true,
    from: split('l1Tenants', 'reason', {
      clear: 'removedClear',
      delete: 'removedDelete',
      quota: 'removedQuota',
      corrupt: 'removedCorrupt',
    }),
  }),
  counter('l1_recovered_chunks_total', {
    help: 'Chunks readable again after a warm restart.',
    labels: TENANT,
    extension: true,
    from: [cell('l1Tenants', 'recoveredShards')],
  }),
  counter('l1_allocation_failure_chunks_total', {
    help: 'Chunks that found no room in L1 even after demand eviction.',
    labels: [...TENANT, 'during'],
    extension: true,
    from: split('l1Tenants', 'during', { store: 'allocationFailureStore', load: 'allocationFailureLoad' }),
  }),
  counter('l1_quota_refusals_total', {
    help: 'Reservations cut short by the L1 quota of their cache salt, after what it could evict of its own was gone.',
    labels: TENANT,
    extension: true,
    from: [cell('l1Tenants', 'quotaRefusals')],
  }),
  counter('leases_expired_total', {
    help: 'Leases that ran out before they were released.',
    labels: NONE,
    extension: true,
    from: [cell('l1', 'leasesExpired')],
  }),
  counter('checksum_failures_total', {
    help: 'Objects whose checksum did not match, by tier.',
    labels: ['tier'],
    extension: true,
    from: [
      cell('l1', 'checksumFailures', { extra: { tier: 'l1' } }),
      cell('l2', 'checksumFailures', { extra: { tier: 'l2' }, isSummed: true }),
    ],
  }),
] as const
