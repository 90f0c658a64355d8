import type { Clock } from '../core/clock.ts'
import type { CounterTable } from '../core/counters.ts'
import type { EventSink } from '../events/bus.ts'
import { CHUNK_REUSED, L1_GHOST_SEEN, L1_SHARD_LEFT, L1_SHARD_TOUCHED } from '../events/catalogue.ts'
import type { L1_FIELDS, L1_TENANT_FIELDS } from '../events/counters.ts'
import type { OpenSpace } from './key-spaces.ts'
import type { SaltUsage } from './salt-usage.ts'

export type L1TenantField = (typeof L1_TENANT_FIELDS)[number]
export type L1Field = (typeof L1_FIELDS)[number]

/** Why promised shards could not be served, and the cell that counts it. */
export const READ_FAILURES = {
  expired: 'readFailureExpired',
  checksum: 'readFailureChecksum',
  lost: 'readFailureLost',
} as const satisfies Record<string, L1TenantField>
export type ReadFailure = keyof typeof READ_FAILURES

/**
 * What L1 tells of itself: cells, lifecycle events, and the time of the batch at hand. The clock is read by `tick`,
 * once a batch. A stamp is whole milliseconds since `startMs`, modulo 2^32: since construction, or since that of the first
 * engine whose tables were taken over.
 */
export class L1Recorder {
  readonly #clock: Clock
  readonly #salts: SaltUsage
  readonly #events: EventSink
  readonly #tenantCells: Float64Array
  readonly #tenantStride: number
  readonly #tenantUsage: number
  readonly #cells: Float64Array
  readonly #usage: number
  readonly #usageRatio: number
  readonly #capacityBytes: number
  readonly #startMs: number
  readonly #sampleEvery: number
  /** Reading of the clock at the last tick, ms. */
  timeMs: number
  /** The same as a stamp. */
  stamp = 0
  usageBytes = 0

  constructor(
    parts: {
      readonly clock: Clock
      readonly events: EventSink
      readonly tenants: CounterTable<L1TenantField>
      readonly totals: CounterTable<L1Field>
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
    this.#startMs = parts.startMs ?? parts.clock.nowMs()
    this.timeMs = parts.clock.nowMs()
    parts.totals.set(0, 'capacityBytes', capacityBytes)
  }

  /** Reads the clock. */
  tick(): void {
    this.timeMs = this.#clock.nowMs()
    this.stamp = (this.timeMs - this.#startMs) >>> 0
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
    const lifetime = ((this.stamp - allocatedStamp) >>> 0) / 1000
    const idle = ((this.stamp - touchStamp) >>> 0) / 1000
    this.#events.publish(L1_SHARD_LEFT, tenant, this.timeMs, lifetime, idle)
  }

  shardTouched(tenant: number, touchStamp: number): void {
    this.#events.publish(L1_SHARD_TOUCHED, tenant, this.timeMs, ((this.stamp - touchStamp) >>> 0) / 1000)
  }

  ghostSeen(tenant: number, evictedStamp: number): void {
    this.#events.publish(L1_GHOST_SEEN, tenant, this.timeMs, ((this.stamp - evictedStamp) >>> 0) / 1000)
  }

  chunkReused(tenant: number, useStamp: number, hashLow: number, hashHigh: number): void {
    const gap = ((this.stamp - useStamp) >>> 0) / 1000
    this.#events.publish(CHUNK_REUSED, tenant, this.timeMs, gap, hashLow, hashHigh)
  }
}
