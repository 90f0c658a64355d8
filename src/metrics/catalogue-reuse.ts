import { CHUNK_RETRIEVED, CHUNK_REUSED, CHUNK_STORED } from '../events/catalogue.ts'
import { counter, distanceHistogram, gauge, histogram, REUSE_DISTANCE, SECONDS, TENANT } from './define.ts'

/** Reuse of chunks in time and in distance, and what another L1 size would have hit. */
export const REUSE_METRICS = [
  histogram('real_reuse_gap_seconds', {
    help: 'Seconds from the store or reuse of a chunk to its next reuse.',
    labels: TENANT,
    on: CHUNK_REUSED,
    value: 'gapSeconds',
    times: 'chunks',
    bounds: SECONDS,
  }),
  distanceHistogram('real_reuse_gap_objects', {
    help: 'Distinct chunks stored or reused between two uses of a chunk.',
    labels: TENANT,
    events: [CHUNK_STORED, CHUNK_RETRIEVED],
    bounds: REUSE_DISTANCE,
  }),
  gauge('l1_would_hit_ratio', {
    help: 'Hit ratio since start that an L1 of this multiple of the size would have had, by least recent use.',
    labels: ['scale'],
    extension: true,
    from: 'wouldHitRatio',
  }),
  counter('reuse_history_dropped_chunks_total', {
    help: 'Chunks that fell out of a bounded history of reuse distances.',
    labels: ['history'],
    extension: true,
    from: 'historyDropped',
  }),
  gauge('reuse_history_sample_ratio', {
    help: 'Share of all chunks that a history of reuse distances follows.',
    labels: ['history'],
    extension: true,
    from: 'historySampleRate',
  }),
] as const
