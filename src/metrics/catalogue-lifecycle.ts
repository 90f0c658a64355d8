import {
  L0_BLOCK_EVICTED,
  L0_BLOCK_REUSED,
  L1_GHOST_SEEN,
  L1_SHARD_LEFT,
  L1_SHARD_TOUCHED,
} from '../events/catalogue.ts'
import { cell, counter, gauge, histogram, NONE, SECONDS, TENANT } from './define.ts'

/** Lives of L0 blocks and L1 chunks. */
export const LIFECYCLE_METRICS = [
  histogram('l0_block_lifetime_seconds', {
    help: 'Seconds from allocation to eviction of an L0 block.',
    labels: TENANT,
    on: L0_BLOCK_EVICTED,
    value: 'lifetimeSeconds',
    bounds: SECONDS,
  }),
  histogram('l0_block_idle_before_evict_seconds', {
    help: 'Seconds from the last access to the eviction of an L0 block.',
    labels: TENANT,
    on: L0_BLOCK_EVICTED,
    value: 'idleSeconds',
    bounds: SECONDS,
  }),
  histogram('l0_block_reuse_gap_seconds', {
    help: 'Seconds between two accesses of an L0 block.',
    labels: TENANT,
    on: L0_BLOCK_REUSED,
    value: 'gapSeconds',
    bounds: SECONDS,
  }),
  histogram('l1_chunk_lifetime_seconds', {
    help: 'Seconds from allocation to eviction or removal of an L1 chunk.',
    labels: TENANT,
    on: L1_SHARD_LEFT,
    value: 'lifetimeSeconds',
    bounds: SECONDS,
  }),
  histogram('l1_chunk_idle_before_evict_seconds', {
    help: 'Seconds from the last touch to the eviction or removal of an L1 chunk.',
    labels: TENANT,
    on: L1_SHARD_LEFT,
    value: 'idleSeconds',
    bounds: SECONDS,
  }),
  histogram('l1_chunk_reuse_gap_seconds', {
    help: 'Seconds between two touches of an L1 chunk by clients.',
    labels: TENANT,
    on: L1_SHARD_TOUCHED,
    value: 'gapSeconds',
    bounds: SECONDS,
  }),
  histogram('l1_chunk_evict_reuse_gap_seconds', {
    help: 'Seconds from the eviction of an L1 chunk until it is asked for or stored again.',
    labels: TENANT,
    on: L1_GHOST_SEEN,
    value: 'sinceEvictionSeconds',
    bounds: SECONDS,
  }),
  counter('ghost_expired_total', {
    help: 'Evicted chunks forgotten before they were asked for again.',
    labels: NONE,
    extension: true,
    from: [cell('l1', 'ghostsExpired')],
  }),
  counter('l0_allocated_blocks_total', {
    help: 'L0 blocks allocated.',
    labels: TENANT,
    extension: true,
    from: [cell('l0Tenants', 'allocatedBlocks')],
  }),
  counter('l0_reused_blocks_total', {
    help: 'L0 blocks found again by their prefix.',
    labels: TENANT,
    extension: true,
    from: [cell('l0Tenants', 'reusedBlocks')],
  }),
  counter('l0_evicted_blocks_total', {
    help: 'L0 blocks evicted for room.',
    labels: TENANT,
    extension: true,
    from: [cell('l0Tenants', 'evictedBlocks')],
  }),
  counter('l0_allocation_failures_total', {
    help: 'Allocations that found no free L0 block.',
    labels: TENANT,
    extension: true,
    from: [cell('l0Tenants', 'allocationFailures')],
  }),
  gauge('l0_capacity_blocks', {
    help: 'Blocks of the L0 pool.',
    labels: NONE,
    extension: true,
    from: [cell('l0', 'capacityBlocks')],
  }),
  gauge('l0_used_blocks', {
    help: 'L0 blocks in use.',
    labels: NONE,
    extension: true,
    from: [cell('l0', 'usedBlocks', { visibleWith: ['capacityBlocks'] })],
  }),
  gauge('l0_free_blocks', {
    help: 'L0 blocks free, or held only for reuse.',
    labels: NONE,
    extension: true,
    from: [cell('l0', 'freeBlocks', { visibleWith: ['capacityBlocks'] })],
  }),
  gauge('l0_observed_blocks', {
    help: 'Blocks of GPUs of inference servers that were reported.',
    labels: NONE,
    extension: true,
    from: [cell('l0', 'observedBlocks')],
  }),
  gauge('l0_observed_used_blocks', {
    help: 'Reported blocks of requests that have not ended.',
    labels: NONE,
    extension: true,
    from: [cell('l0', 'observedUsedBlocks', { visibleWith: ['observedBlocks'] })],
  }),
] as const
