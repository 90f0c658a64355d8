import { assert } from '../core/assert.ts'
import type { EventHandler } from '../events/bus.ts'
import { CHUNK_ASKED, CHUNK_REUSED, CHUNK_STORED } from '../events/catalogue.ts'
import { chunkTag } from '../events/chunk-tag.ts'
import { CATALOGUE } from './catalogue.ts'
import type { MetricCells } from './cells.ts'
import type { EventSample, Metric } from './define.ts'
import { Histograms } from './histograms.ts'
import { HISTORY_CHUNKS_DEFAULT, StackDistance } from './reuse-distance.ts'
import { WouldHit } from './would-hit.ts'

/** Events with a treatment of their own besides the samples of the catalogue. */
export const DISTANCE_EVENTS = [CHUNK_ASKED, CHUNK_STORED, CHUNK_REUSED] as const

interface Rule {
  readonly histograms: Histograms
  readonly sample: EventSample
}

export interface RecorderOptions {
  readonly catalogue?: readonly Metric[]
  /** Chunks that each of the two histories of reuse distances follows. */
  readonly historyChunks?: number
}

/** Turns events into histogram samples and reuse distances. Lives on the thread that drains the bus. */
export class Recorder {
  /** Live estimate of what another L1 size would have hit. */
  readonly wouldHit: WouldHit
  /** Chunks stored and reused, for the distance of each reuse. */
  readonly reuse: StackDistance
  readonly #cells: MetricCells
  readonly #histograms = new Map<string, Histograms>()
  readonly #rules: Rule[][] = []
  readonly #distances: Histograms[] = []
  #lostAsked = 0

  constructor(cells: MetricCells, options: RecorderOptions = {}) {
    const { catalogue = CATALOGUE, historyChunks = HISTORY_CHUNKS_DEFAULT } = options
    this.#cells = cells
    this.wouldHit = new WouldHit(new StackDistance(historyChunks))
    this.reuse = new StackDistance(historyChunks)
    for (const metric of catalogue) this.#follow(metric)
  }

  /** The distributions of a histogram metric. */
  histograms(name: string): Histograms {
    const found = this.#histograms.get(name)
    assert(found !== undefined, 'no such histogram')
    return found
  }

  /**
   * Delivers at most `maxEvents` from the bus, then tells producers which chunks to leave out.
   *
   * @returns events delivered.
   */
  drain(maxEvents: number): number {
    const lost = this.#cells.bus.droppedOf(CHUNK_ASKED.id)
    if (lost !== this.#lostAsked) this.wouldHit.noteLoss()
    this.#lostAsked = lost
    const delivered = this.#cells.bus.drain(maxEvents, this.record)
    this.#cells.sampling.set(0, 'askedBelow', this.wouldHit.distances.threshold)
    return delivered
  }

  /** Records one event. */
  readonly record: EventHandler = (typeId, tenant, _timeMs, a, b, c) => {
    const rules = this.#rules[typeId]
    if (rules !== undefined) {
      for (const { histograms, sample } of rules) {
        const value = pick(sample.value, a, b, c)
        const per = sample.per < 0 ? 1 : pick(sample.per, a, b, c)
        if (sample.per >= 0 && (value <= 0 || per <= 0)) continue
        const adapter = sample.adapter < 0 ? 0 : pick(sample.adapter, a, b, c)
        histograms.record(adapter * this.#cells.tenants.rows + tenant, value / per / sample.scale)
      }
    }
    if (typeId === CHUNK_ASKED.id) this.wouldHit.asked(a, b, c)
    else if (typeId === CHUNK_STORED.id) this.reuse.touch(chunkTag(a, b, tenant), 0)
    else if (typeId === CHUNK_REUSED.id) this.#reused(chunkTag(b, c, tenant), tenant)
  }

  #follow(metric: Metric): void {
    if (metric.type !== 'histogram') return
    const histograms = new Histograms(metric)
    this.#histograms.set(metric.name, histograms)
    if (metric.source.kind === 'reuseDistance') this.#distances.push(histograms)
    if (metric.source.kind !== 'event') return
    const { sample } = metric.source
    this.#rules[sample.on.id] ??= []
    this.#rules[sample.on.id]!.push({ histograms, sample })
  }

  #reused(tag: number, tenant: number): void {
    if (!this.reuse.touch(tag, 0) || !this.reuse.isSeen) return
    for (const histograms of this.#distances) histograms.record(tenant, this.reuse.chunks)
  }
}

function pick(place: number, a: number, b: number, c: number): number {
  return place === 0 ? a : place === 1 ? b : c
}
