import type { Clock } from '../core/clock.ts'
import type { CounterTable } from '../core/counters.ts'
import type { EventBatchSink } from '../events/bus.ts'
import type { L1Field, L1TenantField, SamplingField } from './l1-recorder.ts'
import type { L1Tables } from './l1-tables.ts'

/** What the L1 cache works with. */
export interface L1Parts {
  readonly clock: Clock
  readonly events: EventBatchSink
  readonly tenants: CounterTable<L1TenantField>
  readonly totals: CounterTable<L1Field>
  /** What samples are wanted; absent = all. */
  readonly sampling?: CounterTable<SamplingField>
  /** Where it keeps its tables; on the heap when absent. Not empty: `recover` must follow. */
  readonly tables?: L1Tables
  /** Reading of the clock from which the stamps of those tables count; the present one when absent. */
  readonly startMs?: number
  /** Two random words that nobody outside knows: they choose the buckets of the index. */
  readonly hashKey?: readonly [number, number]
  /** Usage is at or over the high watermark, or a reservation found no room. */
  readonly onPressure?: () => void
  /** A chunk is about to be evicted; (id, generation) is its reference. It must not call the cache. */
  readonly onEvicted?: (id: number, generation: number) => void
  /** Whether nobody but L1 needs a chunk: those leave before others of about their age. Absent = all are so. */
  readonly isClean?: (id: number, generation: number) => boolean
  /** A shard became readable; as `onEvicted`, with its rank. */
  readonly onReadable?: (id: number, generation: number, rank: number) => void
  /** Copies bytes within the arena. Absent when no bytes are kept. */
  readonly move?: (fromOffset: number, toOffset: number, bytes: number) => void
}
