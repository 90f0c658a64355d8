import { assert } from '../core/assert.ts'
import { EVENT_A, EVENT_B, EVENT_TENANT, EVENT_TYPE, type EventHandler } from '../events/bus.ts'
import { CHUNK_ASKED, CHUNK_REUSED, CHUNK_STORED } from '../events/catalogue.ts'
import { chunkTag, sampleValue } from '../events/chunk-tag.ts'
import { CATALOGUE } from './catalogue.ts'
import type { MetricCells } from './cells.ts'
import type { EventSample, Metric } from './define.ts'
import { Histograms } from './histograms.ts'
import { StackDistance } from './reuse-distance.ts'
import { WouldHit } from './would-hit.ts'

/**
 * Chunks that the histories follow. What another size would have hit is asked of the first, to a point; the second makes
 * a histogram, and must keep up with every chunk that is served.
 */
const ASKED_CHUNKS_DEFAULT = 32_768
const REUSED_CHUNKS_DEFAULT = 4_096

/** Events with a treatment of their own besides the samples of the catalogue. */
export const DISTANCE_EVENTS = [CHUNK_ASKED, CHUNK_STORED, CHUNK_REUSED] as const

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
  /** Tag and bytes of a chunk that was used; bytes of this history are of no interest. */
  readonly #used = new Float64Array(2)
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
    const delivered = this.#cells.bus.drain(maxEvents, this.#deliver)
    this.#cells.sampling.set(0, 'askedBelow', this.wouldHit.distances.threshold)
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
    else if (typeId === CHUNK_STORED.id) this.#reused(records, at, EVENT_A, false)
    else if (typeId === CHUNK_REUSED.id) this.#reused(records, at, EVENT_B, true)
  }

  #sample({ histograms, sample }: Rule, records: Float64Array, at: number): void {
    const tenant = records[at + EVENT_TENANT]!
    const value = records[at + EVENT_A + sample.value]!
    const per = sample.per < 0 ? 1 : records[at + EVENT_A + sample.per]!
    if (sample.per >= 0 && (value <= 0 || per <= 0)) return
    const adapter = sample.adapter < 0 ? 0 : records[at + EVENT_A + sample.adapter]!
    histograms.record(adapter * this.#cells.tenants.rows + tenant, value / per / sample.scale)
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

  /** A chunk was used, whose hash begins at `hash` of the payload. */
  #reused(records: Float64Array, at: number, hash: number, isReuse: boolean): void {
    const tenant = records[at + EVENT_TENANT]!
    const tag = chunkTag(records[at + hash]!, records[at + hash + 1]!, tenant)
    if (sampleValue(tag) >= this.reuse.threshold) return
    this.#used[0] = tag
    this.reuse.touchAt(this.#used, 0, false)
    if (!isReuse || !this.reuse.isSeen) return
    for (let i = 0; i < this.#distances.length; i += 1) this.#distances[i]!.record(tenant, this.reuse.chunks)
  }
}
