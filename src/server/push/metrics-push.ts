import { JsonMetricsSerializer, ProtobufMetricsSerializer } from '@opentelemetry/otlp-transformer'
import type { Resource } from '@opentelemetry/resources'
import type { MetricData } from '@opentelemetry/sdk-metrics'
import type { Clock, Timer } from '../../core/clock.ts'
import { within } from '../../core/within.ts'
import type { OtlpSender, SendResult } from './otlp-sender.ts'
import { PushSchedule } from './push-schedule.ts'

/** How OTLP bodies are written. */
export const ENCODINGS = {
  json: { contentType: 'application/json', serializer: JsonMetricsSerializer },
  protobuf: { contentType: 'application/x-protobuf', serializer: ProtobufMetricsSerializer },
} as const

/** Told how pushing goes. Failures are told when they begin, and at each further doubling; then the recovery. */
export interface PushLog {
  warn(facts: object, message: string): void
  info(facts: object, message: string): void
}

export interface MetricsPushParts {
  readonly sender: Pick<OtlpSender, 'send'>
  readonly encoding: keyof typeof ENCODINGS
  readonly resource: Resource
  readonly scope: { readonly name: string; readonly version: string }
  readonly intervalMs: number
  readonly clock: Clock
  /** 0 <= x < 1. */
  readonly random: () => number
  readonly log: PushLog
  /** The values of now, a batch at a time. */
  readonly collect: () => AsyncIterable<MetricData[]>
}

/** How pushing has gone so far. */
export interface PushStatus {
  readonly pushes: number
  readonly failedPushes: number
  readonly failuresInARow: number
  /** Points that the receiver said it did not keep. */
  readonly rejectedPoints: number
  /** Milliseconds since 1970; null before the first. */
  readonly lastSuccessMs: number | null
}

/**
 * Pushes metrics on an interval. Nothing is queued: values are cumulative, so that a push after an outage carries all
 * that was missed. One batch exists at a time, and one push at a time.
 */
export class MetricsPush {
  readonly #parts: MetricsPushParts
  readonly #schedule: PushSchedule
  #timer: Timer | undefined
  #running: Promise<void> | undefined
  #isStopped = false
  #pushes = 0
  #failedPushes = 0
  #rejectedPoints = 0
  #lastSuccessMs: number | null = null

  constructor(parts: MetricsPushParts) {
    this.#parts = parts
    this.#schedule = new PushSchedule(parts.intervalMs, parts.random)
  }

  status(): PushStatus {
    return {
      pushes: this.#pushes,
      failedPushes: this.#failedPushes,
      failuresInARow: this.#schedule.failures,
      rejectedPoints: this.#rejectedPoints,
      lastSuccessMs: this.#lastSuccessMs,
    }
  }

  start(): void {
    this.#arm(this.#parts.intervalMs)
  }

  /** Ends the interval and pushes a last time, whatever the back-off says; waits at most `deadlineMs`. */
  async close(deadlineMs: number): Promise<void> {
    this.#isStopped = true
    this.#timer?.cancel()
    const last = (this.#running ?? Promise.resolve()).then(() => this.#push())
    await within(this.#parts.clock, deadlineMs, last)
  }

  #arm(delayMs: number): void {
    if (this.#isStopped) return
    this.#timer = this.#parts.clock.schedule(delayMs, () => {
      this.#running = this.#push().finally(() => {
        this.#running = undefined
      })
    })
  }

  /** One push. Never rejects; arms the next one. */
  async #push(): Promise<void> {
    let result: SendResult
    try {
      result = await this.#sendAll()
    } catch (error) {
      result = { outcome: 'refused', reason: error instanceof Error ? error.message : String(error) }
    }
    this.#pushes += 1
    if (result.outcome === 'taken') this.#arm(this.#succeeded())
    else this.#arm(this.#failed(result.reason, result.outcome === 'later' ? result.afterMs : 0))
  }

  /** Sends batch after batch; the first that is not taken ends the push. */
  async #sendAll(): Promise<SendResult> {
    const { sender, encoding, resource, scope, clock, collect } = this.#parts
    const { contentType, serializer } = ENCODINGS[encoding]
    let result: SendResult = { outcome: 'taken', answer: new Uint8Array() }
    for await (const metrics of collect()) {
      const body = serializer.serializeRequest({ resource, scopeMetrics: [{ scope, metrics }] })
      if (body === undefined) continue
      result = await sender.send('/v1/metrics', contentType, body, clock.wallMs())
      if (result.outcome !== 'taken') return result
      this.#noteRejected(result.answer)
    }
    return result
  }

  /** A receiver may take a request and keep only a part of it. */
  #noteRejected(answer: Uint8Array): void {
    if (answer.length === 0) return
    let partial: { rejectedDataPoints?: number; errorMessage?: string } | undefined
    try {
      partial = ENCODINGS[this.#parts.encoding].serializer.deserializeResponse(answer).partialSuccess
    } catch {
      return // an answer that is not OTLP, with a status of success
    }
    const rejected = Number(partial?.rejectedDataPoints ?? 0)
    if (rejected === 0) return
    this.#rejectedPoints += rejected
    this.#parts.log.warn({ rejected, reason: partial?.errorMessage }, 'the OTLP receiver did not keep all points')
  }

  #succeeded(): number {
    const { failures } = this.#schedule
    this.#lastSuccessMs = this.#parts.clock.wallMs()
    if (failures > 0)
      this.#parts.log.info({ failedPushes: failures }, 'metrics are pushed again; counters lost nothing')
    return this.#schedule.succeeded()
  }

  #failed(reason: string, afterMs: number): number {
    this.#failedPushes += 1
    const nextMs = this.#schedule.failed(afterMs)
    const { failures } = this.#schedule
    const isTold = (failures & (failures - 1)) === 0
    if (isTold) {
      const facts = { reason, failures, nextTryMs: Math.round(nextMs) }
      this.#parts.log.warn(facts, 'metrics could not be pushed; the next push carries what this one missed')
    }
    return nextMs
  }
}
