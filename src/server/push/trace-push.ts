import { JsonTraceSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer'
import type { Clock, Timer } from '../../core/clock.ts'
import type { CounterTable } from '../../core/counters.ts'
import { within } from '../../core/within.ts'
import type { SPAN_PUSH_FIELDS } from '../../events/counters.ts'
import type { SpanRing } from '../../events/span-ring.ts'
import type { PushLog } from './metrics-push.ts'
import type { OtlpSender, SendResult } from './otlp-sender.ts'
import { PushSchedule } from './push-schedule.ts'
import { type SpanFacts, spanDataOf } from './span-data.ts'
import { SpanQueue } from './span-queue.ts'

/** Spans of one request at most: about 300 KB of JSON. */
export const BATCH_SPANS = 512
/** Spans that wait at most: 2.5 MiB. */
export const QUEUE_SPANS = 16_384
/** How long a receiver that has no traces is left alone. */
const PAUSE_MS = 600_000
/** Answers that mean: nothing takes traces there. */
const NO_ROUTE: readonly (number | undefined)[] = [404, 405, 501]

const ENCODINGS = {
  json: { contentType: 'application/json', serializer: JsonTraceSerializer },
  protobuf: { contentType: 'application/x-protobuf', serializer: ProtobufTraceSerializer },
} as const

export interface TracePushParts {
  readonly sender: Pick<OtlpSender, 'send'>
  readonly encoding: keyof typeof ENCODINGS
  readonly ring: SpanRing
  readonly facts: SpanFacts
  readonly intervalMs: number
  readonly clock: Clock
  /** 0 <= x < 1. */
  readonly random: () => number
  readonly log: PushLog
  readonly cells: CounterTable<(typeof SPAN_PUSH_FIELDS)[number]>
}

/**
 * Pushes spans: on an interval, and as soon as a whole batch waits. Spans are not cumulative as metrics are, so they
 * are queued while the receiver is away, up to a bound, and the oldest are dropped and counted then.
 *
 *   ring --drain--> queue --batch--> taken: gone
 *                                --> later: stays, back-off
 *                                --> refused: dropped and counted, back-off
 *                                --> no such route: all dropped, none begun for ten minutes; told once
 */
export class TracePush {
  readonly #parts: TracePushParts
  readonly #schedule: PushSchedule
  readonly #queue: SpanQueue
  #timer: Timer | undefined
  #running: Promise<void> | undefined
  #isStopped = false
  #hasToldNoRoute = false

  constructor(parts: TracePushParts, queueSpans = QUEUE_SPANS) {
    this.#parts = parts
    this.#schedule = new PushSchedule(parts.intervalMs, parts.random)
    this.#queue = new SpanQueue(queueSpans)
  }

  /** Spans that wait. */
  get waiting(): number {
    return this.#queue.count
  }

  start(): void {
    this.#arm(this.#parts.intervalMs)
  }

  /** Takes over what has ended on the data thread. */
  drain(): void {
    const { ring, cells } = this.#parts
    const { isPaused } = ring
    let dropped = 0
    ring.drain((records, at) => {
      if (!isPaused && !this.#queue.push(records, at)) dropped += 1
    })
    if (dropped > 0) cells.add(0, 'droppedQueue', dropped)
    const isDue = this.#queue.count >= BATCH_SPANS && this.#schedule.failures === 0
    if (!isDue || this.#running !== undefined || this.#isStopped) return
    this.#timer?.cancel()
    this.#run()
  }

  /** Pushes what is left, whatever the back-off says; waits at most `deadlineMs`. */
  async close(deadlineMs: number): Promise<void> {
    this.#isStopped = true
    this.#timer?.cancel()
    this.drain()
    const last = (this.#running ?? Promise.resolve()).then(() => this.#push())
    await within(this.#parts.clock, deadlineMs, last)
  }

  #arm(delayMs: number): void {
    if (!this.#isStopped) this.#timer = this.#parts.clock.schedule(delayMs, () => this.#run())
  }

  #run(): void {
    this.#running = this.#push().finally(() => {
      this.#running = undefined
    })
  }

  /** One push. Never rejects; arms the next one. */
  async #push(): Promise<void> {
    this.#parts.ring.isPaused = false
    let result: SendResult
    try {
      result = await this.#sendAll()
    } catch (error) {
      result = { outcome: 'refused', reason: error instanceof Error ? error.message : String(error) }
    }
    if (result.outcome === 'taken') this.#arm(this.#succeeded())
    else if (result.outcome === 'refused' && NO_ROUTE.includes(result.status)) this.#pause(result.reason)
    else this.#arm(this.#failed(result.reason, result.outcome === 'later' ? result.afterMs : 0))
  }

  /** Sends batch after batch; the first that is not taken ends the push. */
  async #sendAll(): Promise<SendResult> {
    const { sender, encoding, facts, clock, cells } = this.#parts
    const { contentType, serializer } = ENCODINGS[encoding]
    while (this.#queue.count > 0) {
      const { made, end } = this.#queue.batch(BATCH_SPANS, (records, at) => spanDataOf(records, at, facts))
      const body = serializer.serializeRequest(made)
      const result: SendResult =
        body === undefined
          ? { outcome: 'refused', reason: 'the spans cannot be written' }
          : await sender.send('/v1/traces', contentType, body, clock.wallMs())
      if (result.outcome === 'later') return result
      const gone = this.#queue.dropTo(end)
      const rejected = result.outcome === 'refused' ? gone : Math.min(gone, this.#rejectedOf(result.answer))
      if (rejected > 0) cells.add(0, 'refused', rejected)
      if (result.outcome === 'refused') return result
      cells.add(0, 'pushed', gone - rejected) // those that made room meanwhile are counted as dropped
    }
    return { outcome: 'taken', answer: new Uint8Array() }
  }

  /** A receiver may take a request and keep only a part of it. */
  #rejectedOf(answer: Uint8Array): number {
    if (answer.length === 0) return 0
    try {
      const partial = ENCODINGS[this.#parts.encoding].serializer.deserializeResponse(answer).partialSuccess
      const rejected = Number(partial?.rejectedSpans ?? 0)
      const reason = partial?.errorMessage
      if (rejected > 0) this.#parts.log.warn({ rejected, reason }, 'the OTLP receiver did not keep all spans')
      return rejected
    } catch {
      return 0 // an answer that is not OTLP, with a status of success
    }
  }

  #succeeded(): number {
    const { failures } = this.#schedule
    if (failures > 0) this.#parts.log.info({ failedPushes: failures }, 'traces are pushed again')
    return this.#schedule.succeeded()
  }

  #failed(reason: string, afterMs: number): number {
    const nextMs = this.#schedule.failed(afterMs)
    const { failures } = this.#schedule
    if ((failures & (failures - 1)) === 0) {
      const facts = { reason, failures, nextTryMs: Math.round(nextMs), waitingSpans: this.#queue.count }
      this.#parts.log.warn(facts, 'traces could not be pushed; the oldest are dropped when too many wait')
    }
    return nextMs
  }

  #pause(reason: string): void {
    const { ring, cells, log } = this.#parts
    ring.isPaused = true
    const dropped = this.#queue.dropTo(Number.POSITIVE_INFINITY)
    if (dropped > 0) cells.add(0, 'refused', dropped)
    if (!this.#hasToldNoRoute)
      log.warn({ reason }, 'the OTLP receiver takes no traces: none are recorded; metrics go on')
    this.#hasToldNoRoute = true
    this.#schedule.succeeded()
    this.#arm(PAUSE_MS)
  }
}
