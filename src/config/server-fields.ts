import type { AuthOptions, HttpOptions, MpOptions, PrometheusOptions } from '../server/options.ts'
import { boolean, derived, duration, type FieldTable, file, integer, list, port, ratio, text } from './fields.ts'

export const httpFields = {
  host: text('--http-host', '127.0.0.1', 'Address of the HTTP API. Wider than loopback needs a token first.'),
  port: port('--http-port', 8080, 'Port of the HTTP API; 0 picks a free one.'),
  allowedHosts: list('--http-allowed-hosts', [], 'Further names that a Host or Origin header may carry.'),
  requestTimeoutMs: duration(
    '--http-request-timeout',
    '60s',
    { minimumMs: 1000, maximumMs: 3_600_000 },
    'Time for a client to send a whole request.',
  ),
  answerTimeoutMs: duration(
    '--http-answer-timeout',
    '30s',
    { minimumMs: 100, maximumMs: 3_600_000 },
    'Time for the engine to answer a request; a clear takes as long as it takes.',
  ),
  connectionsMax: integer(
    '--http-connections',
    1024,
    { minimum: 1, maximum: 65_535 },
    'Open HTTP connections at most; further ones are closed.',
  ),
  withoutTokens: boolean(
    '--http-without-tokens',
    false,
    'Lets the HTTP API listen beyond loopback without a token: whoever reaches it may read and infer.',
  ),
  rateLimit: integer(
    '--http-rate-limit',
    0,
    { minimum: 0, maximum: 1_000_000 },
    'Requests a second of one token, or of one address without a token; 0 = no limit.',
  ),
  rateBurst: integer(
    '--http-rate-burst',
    derived('as --http-rate-limit', ({ value }) => value<number>('--http-rate-limit')),
    { minimum: 0, maximum: 10_000_000 },
    'Requests that one of them may send at once.',
  ),
} satisfies FieldTable<HttpOptions>

export const authFields = {
  tokens: {
    ...list(
      '--auth-tokens',
      [],
      'Tokens of the HTTP API, as SCOPE:TOKEN or SCOPE:sha256:HASH. In the environment rather than as a flag.',
    ),
    show: (entries) => entries.map(() => '***').join(','),
    isSecret: true,
  },
  tokenFile: file('--auth-token-file', 'File of tokens of the HTTP API, one a line; read again when it changes.'),
} satisfies FieldTable<AuthOptions>

export const prometheusFields = {
  enabled: boolean('--prometheus-enabled', true, 'Serves GET /metrics.'),
  host: text('--prometheus-host', '0.0.0.0', 'Address of GET /metrics.'),
  port: port('--prometheus-port', 9090, 'Port of GET /metrics; 0 picks a free one.'),
  tokenFile: file('--prometheus-token-file', 'File of the bearer token that scrapers must send.'),
  certFile: file('--prometheus-cert-file', 'PEM file of the certificate of GET /metrics, which makes it https.'),
  keyFile: file('--prometheus-key-file', 'PEM file of the key of that certificate.'),
} satisfies FieldTable<PrometheusOptions>

export const mpFields = {
  host: text('--mp-host', '127.0.0.1', 'Address of the MP wire, which has no passwords: keep it to this machine.'),
  port: port('--mp-port', 5555, 'Port of the MP wire; 0 picks a free one.'),
  clientsMax: integer(
    '--mp-clients',
    1024,
    { minimum: 2, maximum: 65_535 },
    'Clients of the MP wire at most, and workers at most.',
  ),
  silentMs: duration(
    '--mp-silent',
    '120s',
    { minimumMs: 1000, maximumMs: 86_400_000 },
    'A worker whose heartbeats stop for this long is taken for dead.',
  ),
  graceMs: duration(
    '--mp-grace',
    '1h',
    { minimumMs: 1000, maximumMs: 86_400_000 },
    'The same for a worker that never sent a heartbeat.',
  ),
  heldRatioMax: ratio(
    '--mp-held-ratio',
    0.5,
    'Share of L1 that workers may hold without having committed, quarantined slots included; above it they get none.',
  ),
  allowClear: boolean('--mp-allow-clear', false, 'Lets clients of the MP wire clear everything.'),
} satisfies FieldTable<MpOptions>
