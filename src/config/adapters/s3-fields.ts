import { resolve } from 'node:path'
import { S3_DEFAULT as DEFAULT, type S3AdapterOptions } from '../../l2/adapters/s3/options.ts'
import { bytes, duration, integer, type Known, oneOf, Refusal, text } from '../fields.ts'
import { formatBytes, formatDurationMs } from '../units.ts'
import type { BackendSyntax } from './adapter-entry.ts'
import { capacityField } from './capacity-field.ts'

const MIB = 1024 ** 2
const OPTIONAL = { minimum: 0 }

/** `type=s3`: objects in a bucket of S3, or of anything that speaks its protocol. */
export const s3Syntax: BackendSyntax<S3AdapterOptions> = {
  fields: {
    bucket: text('bucket', '', 'Name of the bucket. It must be there.'),
    endpoint: text('endpoint', '', 'http(s)://HOST[:PORT] of the service. Default: AWS, by the region.', OPTIONAL),
    region: text('region', '', 'Region that requests are signed for. Default: AWS_REGION, else us-east-1.', OPTIONAL),
    prefix: text('prefix', DEFAULT.prefix, 'Begins every name. Engines with one prefix share objects.', OPTIONAL),
    addressing: oneOf('style', ['path', 'virtual-host'], DEFAULT.addressing, 'Where the name of the bucket stands.'),
    accessKey: text('access-key', '', 'Access key. Default: AWS_ACCESS_KEY_ID.', OPTIONAL),
    secretKey: text('secret-key', '', 'Secret key. Rather a file or a variable: others may read it.', OPTIONAL),
    secretKeyEnv: text('secret-key-env', '', 'Variable with it. Default: AWS_SECRET_ACCESS_KEY.', OPTIONAL),
    sessionToken: text('session-token', '', 'Token of temporary keys.', OPTIONAL),
    sessionTokenEnv: text('session-token-env', '', 'Variable with it. Default: AWS_SESSION_TOKEN.', OPTIONAL),
    credentialsFile: text('credentials-file', '', 'File like ~/.aws/credentials; read again when refused.', OPTIONAL),
    profile: text('profile', DEFAULT.profile, 'Section of that file.'),
    caFile: text('tls-ca', '', 'PEM file of the authorities trusted. Default: those of the system.', OPTIONAL),
    payload: oneOf(
      'payload',
      ['auto', 'signed', 'unsigned'],
      DEFAULT.payload,
      'Whether signatures cover the bytes of objects; auto: over http they do.',
    ),
    lookup: oneOf(
      'lookup',
      ['index', 'head'],
      DEFAULT.lookup,
      'index: lookups cost no request. head: they ask for what other engines may have stored.',
    ),
    relistMs: duration(
      'relist',
      formatDurationMs(DEFAULT.relistMs),
      { minimumMs: 0, maximumMs: 7 * 86_400_000 },
      'How often the bucket is listed for what others stored and deleted; 0s = only at the start.',
    ),
    partBytes: bytes('part-size', formatBytes(DEFAULT.partBytes), 'Longer objects are uploaded in parts.', 5 * MIB),
    parallelism: integer(
      'parallelism',
      DEFAULT.parallelism,
      { minimum: 1, maximum: 256 },
      'Requests in each direction, and connections of it.',
    ),
    quarantineObjects: integer(
      'quarantine-objects',
      DEFAULT.quarantineObjects,
      { minimum: 0, maximum: 1000 },
      'Corrupt records kept for a look.',
    ),
    capacityBytes: capacityField,
  },
  fixed: {},
  required: { bucket: 'kv-chunks', capacity: '10GiB' },
  secrets: ['secretKey', 'sessionToken'],
  finish: (options, name, known) => {
    checkBucket(options, name)
    const path = (file: string) => (file === '' ? '' : resolve(known.machine.workingDirectory, file))
    return {
      ...options,
      ...credentials(options, name, known),
      endpoint: takeEndpoint(options.endpoint),
      region: checkedRegion(options.region || known.env('AWS_REGION') || DEFAULT.region),
      prefix: takePrefix(options.prefix),
      credentialsFile: path(options.credentialsFile),
      caFile: path(options.caFile),
    }
  },
  exclusive: ({ endpoint, bucket, prefix }) => `the place ${endpoint || 'AWS'}/${bucket}/${prefix}`,
}

function takeEndpoint(endpoint: string): string {
  if (endpoint === '') return ''
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:'
  if (url === undefined || !isHttp || `${url.username}${url.password}${url.search}${url.hash}` !== '') {
    throw new Refusal('endpoint is wrong: write https://HOST or http://HOST:PORT')
  }
  if (url.pathname !== '/') throw new Refusal('endpoint is wrong: write it without a path; bucket and prefix have keys')
  return url.origin
}

function checkBucket({ bucket, addressing, endpoint }: S3AdapterOptions, name: string): void {
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) {
    throw new Refusal('bucket is wrong: write 3 to 63 lower-case letters, digits, "." or "-"')
  }
  if (addressing === 'virtual-host' && bucket.includes('.') && !endpoint.startsWith('http:')) {
    throw new Refusal(`certificates do not cover a bucket with a dot: write style=path for ${name}`)
  }
}

function checkedRegion(region: string): string {
  if (/^[A-Za-z0-9-]{1,64}$/.test(region)) return region
  throw new Refusal('region is wrong: write letters, digits and "-", such as eu-central-1')
}

function takePrefix(prefix: string): string {
  const isFine = /^[\w./-]{0,200}$/.test(prefix) && !prefix.startsWith('/') && !/(^|\/)\.{0,2}\//.test(prefix)
  if (!isFine) throw new Refusal('prefix is wrong: write letters, digits, ".", "_" and "-", with "/" between words')
  return prefix === '' || prefix.endsWith('/') ? prefix : `${prefix}/`
}

/** The keys from the one place that has them. A file is read by the adapter. */
function credentials(options: S3AdapterOptions, name: string, known: Known) {
  const { accessKey, secretKey, secretKeyEnv, sessionToken, sessionTokenEnv, credentialsFile } = options
  const given = [accessKey, secretKey, secretKeyEnv, sessionToken, sessionTokenEnv].some((value) => value !== '')
  if (credentialsFile !== '') {
    if (given) throw new Refusal(`${name} has its keys twice: write credentials-file or access-key, not both`)
    return {}
  }
  if (secretKey !== '' && secretKeyEnv !== '') throw new Refusal('write secret-key or secret-key-env, not both')
  const found = {
    accessKey: accessKey || known.env('AWS_ACCESS_KEY_ID') || '',
    secretKey: secretKey || fromEnv(secretKeyEnv, 'secret-key-env', known) || known.env('AWS_SECRET_ACCESS_KEY') || '',
    sessionToken:
      sessionToken ||
      fromEnv(sessionTokenEnv, 'session-token-env', known) ||
      (accessKey === '' ? known.env('AWS_SESSION_TOKEN') : '') ||
      '',
  }
  if (found.accessKey !== '' && found.secretKey !== '') return found
  const missing = found.accessKey === '' ? 'access key' : 'secret key'
  const fix = 'set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write credentials-file, or access-key and secret-key'
  throw new Refusal(`${name} has no ${missing}: ${fix}`)
}

function fromEnv(variable: string, key: string, known: Known): string {
  if (variable === '') return ''
  const value = known.env(variable)
  if (!value) throw new Refusal(`${key} is wrong: the environment has no ${variable}; set it`)
  return value
}
