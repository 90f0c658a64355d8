/**
 * A kind of event: per-item detail that feeds histograms and samples. Counters never ride the bus.
 * An event carries a tenant row, a time and up to three doubles, named by `payload`.
 */
export interface EventType<Payload extends readonly string[] = readonly string[]> {
  /** Small number on the bus, 0 upwards. */
  readonly id: number
  readonly name: string
  readonly payload: Payload
  readonly emittedBy: string
}

const types: EventType[] = []

/** Events by id. Complete once `events/catalogue.ts` is loaded. */
export const EVENT_TYPES: readonly EventType[] = types

/** Registers an event kind. At most three payload names; ids follow the order of definition. */
export function defineEvent<const Payload extends readonly string[]>(spec: {
  name: string
  payload: Payload
  emittedBy: string
}): EventType<Payload> {
  const type = { id: types.length, ...spec }
  types.push(type)
  return type
}
