/** Where the HTTP API listens, and its limits. */
export interface HttpOptions {
  readonly host: string
  /** 0 = a free one. */
  readonly port: number
  /** Names, besides loopback ones and `host`, that a Host header may carry, and origins' hosts. */
  readonly allowedHosts: readonly string[]
  /** Time for a client to send a whole request. */
  readonly requestTimeoutMs: number
  /** Time for the engine to answer a request. */
  readonly answerTimeoutMs: number
  /** Connections at most; further ones are closed at once. */
  readonly connectionsMax: number
  /** Listens beyond loopback without any token: whoever reaches it may read and infer. */
  readonly withoutTokens: boolean
  /** Requests a second of one token, or of one address without a token; 0 = no limit. */
  readonly rateLimit: number
  /** Requests that one of them may send at once. */
  readonly rateBurst: number
}

/** Tokens that come with the configuration, besides those of the data directory. See `parseGivenTokens`. */
export interface AuthOptions {
  /** Secrets, when not hashed: never shown. */
  readonly tokens: readonly string[]
  /** Path of a file with one token a line, read again when it changes; empty = none. */
  readonly tokenFile: string
}

/** Where `GET /metrics` listens, and who may scrape. */
export interface PrometheusOptions {
  readonly enabled: boolean
  readonly host: string
  /** 0 = a free one. */
  readonly port: number
  /** Path of a file with the bearer token of scrapers; empty = everybody may scrape. */
  readonly tokenFile: string
  /** Paths of PEM files; empty = plain HTTP. */
  readonly certFile: string
  readonly keyFile: string
}

/** Where the MP wire listens, and its limits. */
export interface MpOptions {
  readonly host: string
  /** 0 = a free one. */
  readonly port: number
  /** Peers at most, and workers at most. */
  readonly clientsMax: number
  /** Silence after which a worker that sent heartbeats is taken for dead. */
  readonly silentMs: number
  /** The same for one that never sent any. */
  readonly graceMs: number
  /** Share of L1 at most that workers may hold without having committed, 0 to 1. */
  readonly heldRatioMax: number
  /** Whether a client may clear everything. */
  readonly allowClear: boolean
}

/** Where metrics and traces are pushed by OTLP/HTTP. */
export interface PushOptions {
  /** Base URL, without `/v1/metrics` or `/v1/traces` and without a slash at its end; empty = no push. */
  readonly endpoint: string
  /** Asks for push by name; an endpoint alone does as well. */
  readonly enabled: boolean
  readonly encoding: 'json' | 'protobuf'
  readonly intervalMs: number
  /** Time for one request. */
  readonly timeoutMs: number
  readonly compression: 'gzip' | 'none'
  /** Share of the traces that begin here, 0 to 1, that is recorded; 0 = no traces at all. */
  readonly traceRatio: number
  /** Sent with every request. May hold secrets: never shown. */
  readonly headers: Readonly<Record<string, string>>
  /** Path of a file with further headers, one `name: value` a line; empty = none. */
  readonly headersFile: string
  /** Paths of PEM files; empty = none. */
  readonly caFile: string
  readonly certFile: string
  readonly keyFile: string
  readonly serviceName: string
  readonly instanceId: string
  /** Empty = not told. */
  readonly engineName: string
  readonly podName: string
  /** Further resource attributes. */
  readonly attributes: Readonly<Record<string, string>>
}
