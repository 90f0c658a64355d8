import { CacheError } from '../core/errors.ts'

const TIMEOUT_MS = 10_000

/** One row of an instant query. */
export interface QueryRow {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

interface Answer<Data> {
  readonly status: 'success' | 'error'
  readonly data?: Data
  /** A text, of a Prometheus server. */
  readonly error?: unknown
}

type VectorData = {
  readonly resultType: 'vector' | 'scalar' | 'string' | 'matrix'
  readonly result: unknown
}

/**
 * The HTTP query API of a Prometheus server: `GET /api/v1/query`, `/api/v1/label/__name__/values`, `/api/v1/series`.
 * Every call throws CacheError NOT_FOUND with what it means when nothing answers, BAD_REQUEST when it is refused.
 */
export class PrometheusApi {
  readonly #base: string
  readonly #token: string | undefined

  /** @param base URL of the server, also below a path. */
  constructor(base: string, token?: string) {
    this.#base = base.replace(/\/+$/, '')
    this.#token = token
  }

  /** The rows of an instant query, now. A scalar is one row without labels. */
  async query(expression: string): Promise<QueryRow[]> {
    const data = await this.#get<VectorData>('query', new URLSearchParams({ query: expression }))
    if (data.resultType === 'scalar') return [{ labels: {}, value: numberOf(data.result) }]
    if (data.resultType !== 'vector') {
      throw new CacheError('BAD_REQUEST', `the expression gives a ${data.resultType}; write one that gives a vector`)
    }
    const rows = data.result as { metric: Record<string, string>; value: unknown }[]
    return rows.map(({ metric, value }) => ({ labels: metric, value: numberOf(value) }))
  }

  /** Names of all metrics that the server has, sorted. */
  async names(): Promise<string[]> {
    return (await this.#get<string[]>('label/__name__/values', new URLSearchParams())).toSorted()
  }

  /** The label sets of the series that a selector finds. */
  series(selector: string): Promise<Readonly<Record<string, string>>[]> {
    return this.#get('series', new URLSearchParams({ 'match[]': selector }))
  }

  async #get<Data>(path: string, parameters: URLSearchParams): Promise<Data> {
    const url = `${this.#base}/api/v1/${path}?${parameters}`
    const response = await this.#fetch(url)
    const answer = (await response.json().catch(() => null)) as Answer<Data> | null
    if (answer?.status === 'success' && answer.data !== undefined) return answer.data
    if (typeof answer?.error === 'string')
      throw new CacheError('BAD_REQUEST', `Prometheus refuses: ${oneLine(answer.error)}`)
    const hint = response.status === 401 || response.status === 403 ? '; give --token-file' : ''
    const what = `${this.#base} answers ${response.status} and no query result`
    throw new CacheError('NOT_FOUND', `${what}: is it a Prometheus server?${hint}`)
  }

  async #fetch(url: string): Promise<Response> {
    const headers: Record<string, string> = this.#token === undefined ? {} : { authorization: `Bearer ${this.#token}` }
    try {
      return await fetch(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) })
    } catch (error) {
      const reason = ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code ?? (error as Error).name
      const message =
        reason === 'ECONNREFUSED'
          ? `connection refused: no Prometheus server listens at ${this.#base}`
          : `no Prometheus server answers at ${this.#base} (${reason})`
      throw new CacheError('NOT_FOUND', message, {}, error)
    }
  }
}

// [time, text]
function numberOf(sample: unknown): number {
  return Number((sample as [number, string])[1])
}

function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').slice(0, 300)
}
