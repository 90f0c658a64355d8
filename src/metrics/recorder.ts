import { assert } from '../core/assert.ts'
import { EVENT_A, EVENT_TENANT, EVENT_TYPE, type EventHandler } from '../events/bus.ts'
import { CHUNK_ASKED, CHUNK_RETRIEVED, CHUNK_STORED } from '../events/catalogue.ts'
import { CATALOGUE } from './catalogue.ts'
import type { MetricCells } from './cells.ts'
import type { EventSample, Metric } from './define.ts'
import { Histograms } from './histograms.ts'
import { CHUNKS, StackDistance } from './reuse-distance.ts'
import { WouldHit } from './would-hit.ts'

/**
 * Chunks that the histories follow. The first reaches `ASKED_DEPTH` times as far back as L1 does, which is as far as
 * anybody asks: so it follows 3,072 of the chunks that fit into L1, however long the engine runs. The second makes a
 * histogram, and must keep up with every chunk that is served.
 */
const ASKED_CHUNKS_DEFAULT = 24_576
const ASKED_DEPTH = 8
const REUSED_CHUNKS_DEFAULT = 2_048

/** Events with a treatment of their own besides the samples of the catalogue. */
export const DISTANCE_EVENTS = [CHUNK_ASKED, CHUNK_STORED, CHUNK_RETRIEVED] as const

interface Rule {
  readonly histograms: Histograms
  readonly sample: EventSample
}

export interface RecorderOptions {
  readonly catalogue?: readonly Metric[]
  /** Chunks that each of the two histories of reuse distances follows; absent = as many as in service. */
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
  /** A sample, and how many times. */
  readonly #given = new Float64Array(2)
  #lostAsked = 0

  constructor(cells: MetricCells, options: RecorderOptions = {}) {
    const { catalogue = CATALOGUE, historyChunks } = options
    this.#cells = cells
    this.wouldHit = new WouldHit(new StackDistance(historyChunks ?? ASKED_CHUNKS_DEFAULT))
    this.reuse = new StackDistance(historyChunks ?? REUSED_CHUNKS_DEFAULT)
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
    this.wouldHit.distances.depthBytes = this.#cells.l1.get(0, 'capacityBytes') * ASKED_DEPTH
    const delivered = this.#cells.bus.drain(maxEvents, this.#deliver)
    this.#cells.sampling.set(0, 'askedBelow', this.wouldHit.distances.threshold)
    this.#cells.sampling.set(0, 'usedBelow', this.reuse.threshold)
    return delivered
  }

  /** Records one event that is not on the bus. */
  record(typeId: number, tenant: number, timeMs: number, a: number, b: number, c: number): void {
    this.#deliver(Float64Array.of(typeId, tenant, timeMs, a, b, c), 0)
  }

  readonly #deliver: EventHandler = (records, at) => {
    const typeId = records[at + EVENT_TYPE]!
    const rules = this.#rules[typeId]
    if (rules !== undefined) for (let i = 0; i < rules.length; i += 1) this.#sample(rules[i]!, records, at)
    if (typeId === CHUNK_ASKED.id) this.wouldHit.askedAt(records, at + EVENT_A)
    else if (typeId === CHUNK_STORED.id) this.#used(records, at, false)
    else if (typeId === CHUNK_RETRIEVED.id) this.#used(records, at, true)
  }

  #sample({ histograms, sample }: Rule, records: Float64Array, at: number): void {
    const tenant = records[at + EVENT_TENANT]!
    const value = records[at + EVENT_A + sample.value]!
    const per = sample.per < 0 ? 1 : records[at + EVENT_A + sample.per]!
    if (sample.per >= 0 && (value <= 0 || per <= 0)) return
    const adapter = sample.adapter < 0 ? 0 : records[at + EVENT_A + sample.adapter]!
    this.#given[0] = value / per / sample.scale
    this.#given[1] = sample.times < 0 ? 1 : records[at + EVENT_A + sample.times]!
    histograms.recordAt(adapter * this.#cells.tenants.rows + tenant, this.#given)
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

  /** A chunk was used. What stands in the place of its bytes is 0: this history has no use for them. */
  #used(records: Float64Array, at: number, isReuse: boolean): void {
    if (!this.reuse.touchAt(records, at + EVENT_A, false) || !isReuse || !this.reuse.isSeen) return
    const tenant = records[at + EVENT_TENANT]!
    this.#given[0] = this.reuse.measured[CHUNKS]!
    this.#given[1] = 1
    for (let i = 0; i < this.#distances.length; i += 1) this.#distances[i]!.recordAt(tenant, this.#given)
  }
}
