import { cell, counter, gauge, NONE, split } from './define.ts'

/** Prefetch jobs, the event bus, the loops and the device. */
export const HEALTH_METRICS = [
  gauge('active_prefetch_jobs', {
    help: 'Prefetch jobs between a lookup and its final answer.',
    labels: NONE,
    always: true,
    from: [cell('engine', 'activePrefetchJobs')],
  }),
  gauge('active_p2p_lookup_jobs', {
    help: 'Lookups in flight to peers; only with a peer adapter.',
    labels: NONE,
    from: [cell('engine', 'activePeerLookupJobs', { visibleWith: ['peerAdapters'] })],
  }),
  gauge('event_bus_queue_depth', {
    help: 'Events on the internal bus that are not delivered yet.',
    labels: NONE,
    always: true,
    from: 'busDepth',
  }),
  gauge('event_bus_drain_lag_seconds', {
    help: 'Age of the oldest undelivered event.',
    labels: NONE,
    always: true,
    from: 'busLag',
  }),
  counter('event_bus_dropped_events_total', {
    help: 'Events dropped because the bus was full.',
    labels: NONE,
    always: true,
    from: 'busDropped',
  }),
  counter('event_bus_dropped_events_by_type_total', {
    help: 'Events dropped because the bus was full, by kind of event.',
    labels: ['type'],
    extension: true,
    from: 'busDroppedByType',
  }),
  counter('trace_spans_total', {
    help: 'Spans recorded, to be pushed.',
    labels: NONE,
    extension: true,
    from: [cell('spans', 'recorded')],
  }),
  counter('trace_spans_pushed_total', {
    help: 'Spans that the OTLP receiver took.',
    labels: NONE,
    extension: true,
    from: [cell('spanPush', 'pushed')],
  }),
  counter('trace_spans_dropped_total', {
    help: 'Spans that were lost: ended too many at once, open too many, waiting for the receiver, refused by it.',
    labels: ['reason'],
    extension: true,
    from: [
      ...split('spans', 'reason', { ring_full: 'droppedRing', too_many_open: 'droppedOpen' }),
      ...split('spanPush', 'reason', { queue_full: 'droppedQueue', refused: 'refused' }),
    ],
  }),
  counter('label_overflow_total', {
    help: 'Times a model and salt past the limit of label sets were folded into __other__.',
    labels: NONE,
    extension: true,
    from: 'labelOverflow',
  }),
  gauge('loop_heartbeat_age_seconds', {
    help: 'Seconds since a background loop finished a cycle.',
    labels: ['loop'],
    extension: true,
    from: [cell('loops', 'lastBeatMs', { reader: 'age' })],
  }),
  counter('loop_errors_total', {
    help: 'Cycles of a background loop that failed.',
    labels: ['loop'],
    extension: true,
    from: [cell('loops', 'errors')],
  }),
  gauge('device_info', {
    help: 'The GPU behind L0, real or simulated; always 1.',
    labels: ['kind', 'name', 'profile'],
    extension: true,
    from: 'deviceInfo',
  }),
] as const
