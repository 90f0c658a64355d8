import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gunzipSync } from 'node:zlib'

/** One request as it came, with its body uncompressed. */
export interface OtlpRequest {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

interface JsonPoint {
  readonly attributes: readonly { readonly key: string; readonly value: { readonly stringValue: string } }[]
  readonly asDouble?: number
  readonly count?: number | string
  readonly sum?: number
  readonly bucketCounts?: readonly (number | string)[]
  readonly startTimeUnixNano: string | object
}

interface JsonMetric {
  readonly name: string
  readonly unit: string
  readonly sum?: { readonly dataPoints: JsonPoint[]; readonly isMonotonic: boolean; aggregationTemporality: number }
  readonly gauge?: { readonly dataPoints: JsonPoint[] }
  readonly histogram?: { readonly dataPoints: JsonPoint[] }
}

/** A body of OTLP/HTTP in JSON. */
export interface OtlpJson {
  readonly resourceMetrics: readonly {
    readonly resource: { readonly attributes: JsonPoint['attributes'] }
    readonly scopeMetrics: readonly { readonly metrics: readonly JsonMetric[] }[]
  }[]
}

/** A span as it arrived. */
export interface ReceivedSpan {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly traceState: string | undefined
  readonly kind: number
  readonly flags: number
  /** Milliseconds since 1970. */
  readonly startMs: number
  readonly endMs: number
  readonly statusCode: number
  readonly attributes: Readonly<Record<string, string | number>>
}

interface JsonSpan extends Omit<ReceivedSpan, 'startMs' | 'endMs' | 'statusCode' | 'attributes'> {
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly status: { readonly code: number }
  readonly attributes: readonly {
    readonly key: string
    readonly value: {
      readonly stringValue?: string
      readonly intValue?: string | number
      readonly doubleValue?: number
    }
  }[]
}

interface TracesJson {
  readonly resourceSpans: readonly { readonly scopeSpans: readonly { readonly spans: readonly JsonSpan[] }[] }[]
}

type Answer = (response: ServerResponse, request: OtlpRequest) => void

/** An OTLP/HTTP receiver that keeps what it gets and answers as told. */
export class OtlpReceiver {
  readonly requests: OtlpRequest[] = []
  /** By default: taken. */
  answer: Answer = (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  readonly #server: Server

  private constructor() {
    this.#server = createServer(async (incoming, response) => {
      const pieces: Buffer[] = []
      for await (const piece of incoming) pieces.push(piece as Buffer)
      const raw = Buffer.concat(pieces)
      const body = incoming.headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw
      const request = { path: incoming.url!, headers: incoming.headers, body }
      this.requests.push(request)
      this.answer(response, request)
    })
  }

  static async start(port = 0): Promise<OtlpReceiver> {
    const receiver = new OtlpReceiver()
    receiver.#server.listen(port, '127.0.0.1')
    await once(receiver.#server, 'listening')
    return receiver
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get endpoint(): string {
    return `http://127.0.0.1:${this.port}`
  }

  /** Every body of metrics so far, read as JSON. */
  bodies(): OtlpJson[] {
    return this.#of('/v1/metrics').map(({ body }) => JSON.parse(body.toString()) as OtlpJson)
  }

  /** Every span so far, in the order in which they came. */
  spans(): ReceivedSpan[] {
    return this.#of('/v1/traces').flatMap(({ body }) => spansOf(JSON.parse(body.toString()) as TracesJson))
  }

  /** The last value of each series: `name{label="value"} -> value`, buckets left out, `_sum` and `_count` told apart. */
  values(): Map<string, number> {
    return new Map(this.bodies().flatMap((body) => seriesOf(body)))
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }

  #of(path: string): OtlpRequest[] {
    return this.requests.filter((request) => request.path === path)
  }
}

/** Spans of a body of OTLP/HTTP in JSON. */
export function spansOf({ resourceSpans }: TracesJson): ReceivedSpan[] {
  const spans = resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans))
  return spans.map(({ startTimeUnixNano, endTimeUnixNano, status, attributes, ...rest }) => ({
    ...rest,
    parentSpanId: rest.parentSpanId || undefined,
    traceState: rest.traceState || undefined,
    startMs: Number(startTimeUnixNano) / 1e6,
    endMs: Number(endTimeUnixNano) / 1e6,
    statusCode: status.code ?? 0,
    attributes: Object.fromEntries(
      attributes.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue ?? value.doubleValue)]),
    ),
  }))
}

/** The name of a series as both exports have it: labels sorted. */
export function seriesName(name: string, labels: Readonly<Record<string, string>>): string {
  return `${name}${JSON.stringify(Object.entries(labels).toSorted(([left], [right]) => (left < right ? -1 : 1)))}`
}

function seriesOf(body: OtlpJson): [string, number][] {
  const metrics = body.resourceMetrics.flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics))
  return metrics.flatMap((metric) => {
    const points = metric.sum?.dataPoints ?? metric.gauge?.dataPoints ?? metric.histogram?.dataPoints ?? []
    return points.flatMap((point): [string, number][] => {
      const labels = Object.fromEntries(point.attributes.map(({ key, value }) => [key, value.stringValue]))
      if (metric.histogram === undefined) return [[seriesName(metric.name, labels), point.asDouble!]]
      return [
        [seriesName(`${metric.name}_sum`, labels), point.sum!],
        [seriesName(`${metric.name}_count`, labels), Number(point.count)],
      ]
    })
  })
}
