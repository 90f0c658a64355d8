import { expect, it } from 'vitest'
import { formatFor, takesGzip } from '../../../../src/server/metrics/accept.ts'

const PROMETHEUS_2 =
  'application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1'

it.each([
  [undefined, 'text'],
  ['', 'text'],
  ['*/*', 'text'],
  ['text/html, */*;q=0.1', 'text'],
  ['text/plain', 'text'],
  ['application/openmetrics-text', 'openmetrics'],
  ['Application/OpenMetrics-Text; Version=1.0.0', 'openmetrics'],
  [PROMETHEUS_2, 'openmetrics'],
  ['application/openmetrics-text;version=2.0.0', 'text'],
  ['application/openmetrics-text;q=0', 'text'],
  ['application/openmetrics-text;q=0.1, text/plain;q=0.9', 'text'],
  ['application/openmetrics-text;q=oops, text/plain', 'text'],
  [',;,=;q', 'text'],
] as const)('Accept %j is answered in %s', (accept, format) => {
  expect(formatFor(accept)).toBe(format)
})

it.each([
  [undefined, false],
  ['gzip', true],
  ['deflate, GZIP;q=0.5', true],
  ['gzip;q=0', false],
  ['*', true],
  ['*, gzip;q=0', false],
  ['identity', false],
])('Accept-Encoding %j takes gzip: %s', (header, takes) => {
  expect(takesGzip(header)).toBe(takes)
})
