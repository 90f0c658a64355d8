import type { CounterTable } from '../core/counters.ts'
import { HASH_WORDS } from '../core/hash-chain.ts'
import type { EventSink } from '../events/bus.ts'
import { L0_BLOCK_EVICTED, L0_BLOCK_REUSED } from '../events/catalogue.ts'
import { SAMPLE_ALL, tagSample } from '../events/chunk-tag.ts'
import type { L0_TENANT_FIELDS } from '../events/counters.ts'
import type { RunTable } from './run-table.ts'

type TenantTable = CounterTable<(typeof L0_TENANT_FIELDS)[number]>

/**
 * Tells of the lives of blocks: counters exactly, events for a sample. Of managed blocks that is a sample of chunks,
 * one event for all blocks of a chunk; of observed ones it is a sample of block ids.
 */
export class BlockLifecycle {
  readonly #tenants: TenantTable
  readonly #events: EventSink
  readonly #sampleBelow: number
  readonly #allocatedBlocks: number
  readonly #reusedBlocks: number
  readonly #evictedBlocks: number
  readonly #allocationFailures: number

  /** @param sampleEvery one of this many chunks, by hash, is told of in events. */
  constructor(tenants: TenantTable, events: EventSink, sampleEvery: number) {
    this.#tenants = tenants
    this.#events = events
    this.#sampleBelow = SAMPLE_ALL / sampleEvery
    this.#allocatedBlocks = tenants.column('allocatedBlocks')
    this.#reusedBlocks = tenants.column('reusedBlocks')
    this.#evictedBlocks = tenants.column('evictedBlocks')
    this.#allocationFailures = tenants.column('allocationFailures')
  }

  allocated(tenant: number, blocks: number): void {
    this.#count(tenant, this.#allocatedBlocks, blocks)
  }

  /** A call found no room. */
  refused(tenant: number): void {
    this.#count(tenant, this.#allocationFailures, 1)
  }

  /** Call before the run's access time moves. */
  reused(tenant: number, runs: RunTable, run: number, nowMs: number): void {
    const blocks = runs.blocks[run]!
    this.#count(tenant, this.#reusedBlocks, blocks)
    if (!this.#isSampled(runs, run)) return
    const gapSeconds = (nowMs - runs.accessedMs[run]!) / 1000
    this.#events.publish(L0_BLOCK_REUSED, tenant, nowMs, gapSeconds, blocks)
  }

  evicted(tenant: number, runs: RunTable, run: number, nowMs: number): void {
    const blocks = runs.blocks[run]!
    this.#count(tenant, this.#evictedBlocks, blocks)
    if (!this.#isSampled(runs, run)) return
    const lifetimeSeconds = (nowMs - runs.allocatedMs[run]!) / 1000
    const idleSeconds = (nowMs - runs.accessedMs[run]!) / 1000
    this.#events.publish(L0_BLOCK_EVICTED, tenant, nowMs, lifetimeSeconds, idleSeconds, blocks)
  }

  /** As `reused`, for one observed block. */
  observedReused(tenant: number, id: number, nowMs: number, accessedMs: number): void {
    this.#count(tenant, this.#reusedBlocks, 1)
    if (this.#isIdSampled(id)) this.#events.publish(L0_BLOCK_REUSED, tenant, nowMs, (nowMs - accessedMs) / 1000, 1)
  }

  /** As `evicted`, for one observed block. */
  observedEvicted(tenant: number, id: number, nowMs: number, allocatedMs: number, accessedMs: number): void {
    this.#count(tenant, this.#evictedBlocks, 1)
    if (!this.#isIdSampled(id)) return
    const lifetimeSeconds = (nowMs - allocatedMs) / 1000
    this.#events.publish(L0_BLOCK_EVICTED, tenant, nowMs, lifetimeSeconds, (nowMs - accessedMs) / 1000, 1)
  }

  #isSampled({ hash, space }: RunTable, run: number): boolean {
    const at = run * HASH_WORDS
    return tagSample(hash[at]!, space[run]!) < this.#sampleBelow
  }

  #isIdSampled(id: number): boolean {
    return tagSample(id, 0) < this.#sampleBelow
  }

  #count(tenant: number, column: number, amount: number): void {
    const { values, stride } = this.#tenants
    values[tenant * stride + column] = values[tenant * stride + column]! + amount
  }
}
