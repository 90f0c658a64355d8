import { createHash } from 'node:crypto'
import type { PushOptions } from '../server/options.ts'
import {
  boolean,
  derived,
  duration,
  type Field,
  type FieldTable,
  file,
  type Known,
  oneOf,
  Refusal,
  ratio,
  text,
} from './fields.ts'

/** Port of OTLP over gRPC, which is not spoken here. */
const GRPC_PORT = '4317'
const ENTRIES_MAX = 64

export const pushFields = {
  endpoint: {
    ...text(
      '--otlp-endpoint',
      '',
      'OTLP/HTTP endpoint that metrics and traces are pushed to, such as http://collector:4318.',
    ),
    type: 'url',
    parse: parseEndpoint,
    schema: { type: 'string', format: 'uri', pattern: '^https?://' },
  },
  enabled: boolean('--observability-enabled', false, 'Asks for push by name; needs --otlp-endpoint.'),
  encoding: oneOf('--otlp-protocol', ['json', 'protobuf'], 'json', 'Form of OTLP/HTTP bodies.'),
  intervalMs: duration('--otlp-interval', '15s', { minimumMs: 100, maximumMs: 3_600_000 }, 'Time between pushes.'),
  timeoutMs: duration('--otlp-timeout', '10s', { minimumMs: 100, maximumMs: 600_000 }, 'Time for one request.'),
  compression: oneOf('--otlp-compression', ['gzip', 'none'], 'gzip', 'Compression of the bodies.'),
  traceRatio: ratio(
    '--otlp-trace-ratio',
    0.01,
    'Share of requests that is traced, where the client has not decided it (traceparent); 0 = no traces at all.',
  ),
  headers: mapping(
    '--otlp-headers',
    'Headers of every request, as name=value,name=value. For secrets rather use the environment or a file.',
    { isName: isHeaderName, isSecret: true },
  ),
  headersFile: file('--otlp-headers-file', 'File of further headers, one "name: value" a line; read at start.'),
  caFile: file('--otlp-ca-file', 'PEM file of the authorities that the endpoint may be signed by.'),
  certFile: file('--otlp-cert-file', 'PEM file of the certificate that the engine shows.'),
  keyFile: file('--otlp-key-file', 'PEM file of the key of that certificate.'),
  serviceName: text('--otlp-service-name', 'kvtier', 'Resource attribute service.name.', { maximum: 255 }),
  instanceId: text(
    '--otlp-instance-id',
    derived('the host name and a hash of the data directory', instanceOf),
    'Resource attribute service.instance.id: the label "instance" in Prometheus. Must tell engines apart.',
    { maximum: 255 },
  ),
  engineName: text('--otlp-engine-name', '', 'Resource attribute kvtier.engine.name.', { minimum: 0, maximum: 255 }),
  podName: text('--otlp-pod-name', '', 'Resource attribute k8s.pod.name.', { minimum: 0, maximum: 255 }),
  attributes: mapping('--otlp-attributes', 'Further resource attributes, as name=value,name=value.', {
    isName: (name) => /^[A-Za-z][A-Za-z0-9._-]{0,127}$/.test(name),
    isSecret: false,
  }),
} satisfies FieldTable<PushOptions>

/**
 * A base URL. What people paste is made right where its meaning is plain (a slash or a signal's path at the end), and
 * refused with the fix where it is not.
 */
function parseEndpoint(raw: unknown): string {
  if (raw === '') return ''
  if (typeof raw !== 'string' || !URL.canParse(raw)) throw new Refusal('write a URL, such as http://collector:4318')
  const url = new URL(raw)
  if (/^(grpcs?|unix|tcp):$/.test(url.protocol)) throw grpcRefusal(url)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new Refusal('write a URL that starts with http:// or https://, such as http://collector:4318')
  }
  if (url.port === GRPC_PORT) throw grpcRefusal(url)
  if (url.username !== '' || url.password !== '') {
    throw new Refusal('leave user and password out of the URL; send them with --otlp-headers authorization=...')
  }
  if (url.search !== '' || url.hash !== '') throw new Refusal('leave out what follows "?" or "#"')
  const base = url.pathname.replace(/\/+$/, '').replace(/\/v1\/(metrics|traces)$/, '')
  return `${url.protocol}//${url.host}${base}`
}

function grpcRefusal({ hostname }: URL): Refusal {
  const host = hostname === '' ? 'collector' : hostname
  return new Refusal(`that is OTLP over gRPC, which is not spoken here; write the OTLP/HTTP port: http://${host}:4318`)
}

function instanceOf({ machine, value }: Known): string {
  const directory = createHash('sha256').update(value<string>('--data-dir')).digest('hex')
  return `${machine.hostName}-${directory.slice(0, 8)}`
}

/** Names and values: text of `name=value` pairs, or a mapping in a file. */
function mapping(
  flag: string,
  help: string,
  rules: { isName: (name: string) => boolean; isSecret: boolean },
): Field<Readonly<Record<string, string>>> {
  const parse = (raw: unknown): Record<string, string> => {
    const pairs = typeof raw === 'string' ? splitPairs(raw) : Object.entries(asObject(raw))
    if (pairs.length > ENTRIES_MAX) throw new Refusal(`write at most ${ENTRIES_MAX} of them`)
    for (const [name, value] of pairs) {
      if (!rules.isName(name)) throw new Refusal('a name is wrong; write name=value,name=value')
      // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is refused
      if (typeof value !== 'string' || /[\u0000-\u001f\u007f]/.test(value)) {
        throw new Refusal(`the value of ${name} is not text of one line`)
      }
    }
    return Object.fromEntries(pairs) as Record<string, string>
  }
  const show = (values: Readonly<Record<string, string>>) =>
    Object.entries(values)
      .map(([name, value]) => `${name}=${rules.isSecret ? '***' : value}`)
      .join(',')
  const schema = { type: ['object', 'string'], additionalProperties: { type: 'string' } }
  return { flag, type: 'name=value,...', help, default: {}, parse, show, schema, isSecret: rules.isSecret }
}

function splitPairs(raw: string): [string, string][] {
  if (raw.trim() === '') return []
  return raw.split(',').map((part) => {
    const equals = part.indexOf('=')
    if (equals <= 0) throw new Refusal('write name=value,name=value')
    return [part.slice(0, equals).trim(), part.slice(equals + 1).trim()]
  })
}

function asObject(raw: unknown): object {
  if (typeof raw !== 'object' || raw === null || Array.isArray(raw))
    throw new Refusal('write a mapping of names to texts')
  return raw
}

function isHeaderName(name: string): boolean {
  return /^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}$/.test(name)
}

/** A file, made absolute against the working directory; empty = none. */
