import type { EventType } from './define.ts'

/** Told each event of a batch, oldest first. Arguments a, b and c follow the event's `payload`. */
export type EventHandler = (typeId: number, tenant: number, timeMs: number, a: number, b: number, c: number) => void

/** What a producer sees of the bus. */
export interface EventSink {
  /** Never blocks and never throws: when the ring is full this newest event is dropped and counted by type. */
  publish(type: EventType, tenant: number, timeMs: number, a?: number, b?: number, c?: number): void
}
