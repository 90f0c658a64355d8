import type { Clock } from '../core/clock.ts'
import { EVENT_TYPES } from '../events/define.ts'
import type { MetricCells } from './cells.ts'
import type { Reading } from './define.ts'
import type { Recorder } from './recorder.ts'

/** Facts of the process that do not change. */
export interface MetricFacts {
  readonly device?: { readonly kind: string; readonly name: string; readonly profile: string }
}

export interface ReadingContext {
  readonly cells: MetricCells
  readonly recorder: Recorder
  readonly clock: Clock
  readonly facts: MetricFacts
}

/** Label values in the order of the metric's labels, and the value. */
export type ReadValue = readonly [labels: readonly string[], value: number]

/** Multiples of the L1 size that `l1_would_hit_ratio` tells of. */
export const WOULD_HIT_SCALES = [0.5, 1, 2, 4] as const

/** Every reading that is not a cell. Readings that are not there yet give an empty list. */
export const READINGS: Readonly<Record<Reading, (context: ReadingContext) => ReadValue[]>> = {
  busDepth: ({ cells }) => [[[], cells.bus.depth()]],
  busLag: ({ cells, clock }) => {
    const oldestMs = cells.bus.oldestTimeMs()
    return [[[], oldestMs === 0 ? 0 : Math.max(0, clock.nowMs() - oldestMs) / 1000]]
  },
  busDropped: ({ cells }) => [[[], cells.bus.dropped()]],
  busDroppedByType: ({ cells }) =>
    recorded(EVENT_TYPES.map((type): ReadValue => [[type.name], cells.bus.droppedOf(type.id)])),
  labelOverflow: ({ cells }) => recorded([[[], cells.tenants.overflow()]]),
  wouldHitRatio: ({ cells, recorder }) => {
    const capacityBytes = cells.l1.get(0, 'capacityBytes')
    if (capacityBytes === 0 || recorder.wouldHit.total === 0) return []
    return WOULD_HIT_SCALES.map((scale) => [[`${scale}`], recorder.wouldHit.ratioAtBytes(capacityBytes * scale)])
  },
  historyDropped: ({ recorder }) =>
    recorded([
      [['lookup'], recorder.wouldHit.distances.dropped],
      [['reuse'], recorder.reuse.dropped],
    ]),
  historySampleRate: ({ recorder }) => {
    const histories = { lookup: recorder.wouldHit.distances, reuse: recorder.reuse }
    return Object.entries(histories).flatMap(([name, history]) => (history.size === 0 ? [] : [[[name], history.rate]]))
  },
  deviceInfo: ({ facts }) =>
    facts.device === undefined ? [] : [[[facts.device.kind, facts.device.name, facts.device.profile], 1]],
}

function recorded(values: readonly ReadValue[]): ReadValue[] {
  return values.filter(([, value]) => value !== 0)
}
