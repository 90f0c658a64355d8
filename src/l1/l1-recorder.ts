import type { Clock } from '../core/clock.ts'
import type { CounterTable } from '../core/counters.ts'
import type { EventBatchSink } from '../events/bus.ts'
import { CHUNK_RETRIEVED, CHUNK_REUSED, L1_GHOST_SEEN, L1_SHARD_LEFT, L1_SHARD_TOUCHED } from '../events/catalogue.ts'
import { chunkTag, SAMPLE_ALL, tagSample } from '../events/chunk-tag.ts'
import type { L1_FIELDS, L1_TENANT_FIELDS, SAMPLING_FIELDS } from '../events/counters.ts'
import type { EventType } from '../events/define.ts'
import { AgeRun, type BatchTime } from './age-run.ts'
import type { OpenSpace } from './key-spaces.ts'
import type { SaltUsage } from './salt-usage.ts'

export type L1TenantField = (typeof L1_TENANT_FIELDS)[number]
export type L1Field = (typeof L1_FIELDS)[number]
export type SamplingField = (typeof SAMPLING_FIELDS)[number]

/** Why promised shards could not be served, and the cell that counts it. */
export const READ_FAILURES = {
  expired: 'readFailureExpired',
  checksum: 'readFailureChecksum',
  lost: 'readFailureLost',
} as const satisfies Record<string, L1TenantField>
export type ReadFailure = keyof typeof READ_FAILURES

/**
 * What L1 tells of itself: cells, lifecycle events, and the time of the batch at hand. The clock is read by `tick`,
 * once a batch, and events are on their way once `endBatch` was called. A stamp is whole milliseconds, modulo 2^32, since
 * `startMs`: since construction, or since that of the first engine whose tables were taken over.
 */
export class L1Recorder implements BatchTime {
  readonly #clock: Clock
  readonly #salts: SaltUsage
  readonly #events: EventBatchSink
  readonly #tenantCells: Float64Array
  readonly #tenantStride: number
  readonly #tenantUsage: number
  readonly #cells: Float64Array
  readonly #usage: number
  readonly #usageRatio: number
  readonly #capacityBytes: number
  readonly #startMs: number
  readonly #sampleEvery: number
  readonly #sampling: Float64Array | null
  readonly #usedBelow: number
  readonly #left: AgeRun
  readonly #touched: AgeRun
  readonly #ghosts: AgeRun
  readonly #reused: AgeRun
  /** Reading of the clock at the last tick, ms. */
  timeMs: number
  /** The same as a stamp. */
  stamp = 0
  usageBytes = 0

  constructor(
    parts: {
      readonly clock: Clock
      readonly events: EventBatchSink
      readonly tenants: CounterTable<L1TenantField>
      readonly totals: CounterTable<L1Field>
      readonly sampling?: CounterTable<SamplingField>
      readonly startMs?: number
    },
    salts: SaltUsage,
    capacityBytes: number,
    sampleEvery: number,
  ) {
    this.#clock = parts.clock
    this.#salts = salts
    this.#events = parts.events
    this.#tenantCells = parts.tenants.values
    this.#tenantStride = parts.tenants.stride
    this.#tenantUsage = parts.tenants.column('usageBytes')
    this.#cells = parts.totals.values
    this.#usage = parts.totals.column('usageBytes')
    this.#usageRatio = parts.totals.column('usageRatio')
    this.#capacityBytes = capacityBytes
    this.#sampleEvery = Math.max(1, sampleEvery)
    this.#sampling = parts.sampling?.values ?? null
    this.#usedBelow = parts.sampling?.column('usedBelow') ?? 0
    const run = (type: EventType) => new AgeRun(parts.events, type, this)
    this.#left = run(L1_SHARD_LEFT)
    this.#touched = run(L1_SHARD_TOUCHED)
    this.#ghosts = run(L1_GHOST_SEEN)
    this.#reused = run(CHUNK_REUSED)
    this.#startMs = parts.startMs ?? parts.clock.nowMs()
    this.timeMs = parts.clock.nowMs()
    parts.totals.set(0, 'capacityBytes', capacityBytes)
  }

  /** Reads the clock: a batch begins. */
  tick(): void {
    this.endBatch()
    this.timeMs = this.#clock.nowMs()
    this.stamp = (this.timeMs - this.#startMs) >>> 0
  }

  /** Publishes what the batch has told of so far. */
  endBatch(): void {
    this.#left.flush()
    this.#touched.flush()
    this.#ghosts.flush()
    this.#reused.flush()
    this.#events.flush()
  }

  /** @param column of the tenant table. */
  addTenant(tenant: number, column: number, amount: number): void {
    const at = tenant * this.#tenantStride + column
    this.#tenantCells[at] = this.#tenantCells[at]! + amount
  }

  /** @param column of the totals. */
  addTotal(column: number, amount: number): void {
    this.#cells[column] = this.#cells[column]! + amount
  }

  /** Slots of a space were allocated (amount > 0) or freed. */
  addUsage({ tenant, saltRow }: OpenSpace, amount: number): void {
    this.#salts.add(saltRow, amount)
    this.usageBytes += amount
    this.#cells[this.#usage] = this.usageBytes
    this.#cells[this.#usageRatio] = this.usageBytes / this.#capacityBytes
    this.addTenant(tenant, this.#tenantUsage, amount)
  }

  /** One chunk of `sampleEvery` is sampled, by the first word of its hash, at `words[at]`. */
  isSampled(words: Uint32Array, at: number): boolean {
    return this.#sampleEvery === 1 || words[at]! % this.#sampleEvery === 0
  }

  shardLeft(tenant: number, allocatedStamp: number, touchStamp: number): void {
    this.#left.add(tenant, allocatedStamp, touchStamp, 1)
  }

  shardsTouched(tenant: number, touchStamp: number, shards: number): void {
    this.#touched.add(tenant, touchStamp, 0, shards)
  }

  ghostSeen(tenant: number, evictedStamp: number): void {
    this.#ghosts.add(tenant, evictedStamp, 0, 1)
  }

  chunkReused(tenant: number, useStamp: number): void {
    this.#reused.add(tenant, useStamp, 0, 1)
  }

  /** A chunk that was stored or retrieved before was retrieved; its hash begins at `words[at]`. */
  chunkRetrieved(tenant: number, space: number, words: Uint32Array, at: number): void {
    const usedBelow = this.#sampling === null ? SAMPLE_ALL : this.#sampling[this.#usedBelow]!
    if (tagSample(words[at]!, space) >= usedBelow) return
    this.#events.enqueue(CHUNK_RETRIEVED, tenant, this.timeMs, chunkTag(words[at]!, words[at + 1]!, space))
  }
}
