import { CacheError } from '../../../core/errors.ts'
import type { Answer } from './exchange.ts'
import { textOf } from './xml.ts'

/** What the texts of errors speak of. */
export interface Place {
  readonly endpoint: string
  readonly bucket: string
  readonly region: string
}

/** The code of an answer's error document, such as NoSuchKey; '' when it has none, as those of HEAD. */
export function serviceCode(answer: Answer): string {
  return answer.text.includes('<Error') ? textOf(answer.text, 'Code') : ''
}

/**
 * Answers after which the same request may go well a little later. 409: S3 says it when two operations meet
 * (OperationAborted), gateways over file systems when a folder comes or goes in the middle of an upload.
 */
export function isBusy({ status }: Answer): boolean {
  return status === 409 || status === 429 || status === 500 || status === 502 || status === 503 || status === 504
}

/**
 * A 404 that speaks of the object: that of HEAD has no code, and some services answer with one to a bucket or an
 * access key that they do not know.
 */
export function isAbsence(answer: Answer): boolean {
  return answer.status === 404 && ['', 'NoSuchKey', 'NoSuchUpload', 'NotFound'].includes(serviceCode(answer))
}

/** Seconds or a date, as milliseconds from now; undefined when the answer names none. */
export function retryAfterMs({ headers }: Answer, wallMs: number): number | undefined {
  const text = headers['retry-after']
  if (text === undefined) return undefined
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - wallMs
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}

/** The error of an answer that nobody expected: it names the option at fault and the fix, where one is known. */
export function serviceError(what: string, answer: Answer, place: Place, wallMs: number): CacheError {
  const code = serviceCode(answer)
  const known = explain(code, answer, place, wallMs)
  const where = `S3 at ${place.endpoint}, bucket ${place.bucket}`
  const status = code === '' ? `status ${answer.status}` : `${code}, status ${answer.status}`
  const detail = { status: answer.status, ...(code === '' ? {} : { s3_code: code }) }
  if (known === undefined) {
    return new CacheError('L2_UNAVAILABLE', `${where}: ${what} failed (${status})`, detail)
  }
  return new CacheError('CONFIG_INVALID', `${where}: ${what} was refused (${status}): ${known.fix}`, {
    ...detail,
    field: known.field,
  })
}

interface Fix {
  readonly field: string
  readonly fix: string
}

/** Faults that a retry cannot mend: somebody must change an option, a right or a clock. */
function explain(code: string, answer: Answer, place: Place, wallMs: number): Fix | undefined {
  const region = regionOf(answer)
  const isRegion = answer.status === 301 || answer.status === 307 || code === 'AuthorizationHeaderMalformed'
  if (isRegion && region !== '' && region !== place.region) {
    return { field: 'region', fix: `the bucket is in ${region}, not in ${place.region}: write region=${region}` }
  }
  if (answer.status >= 300 && answer.status < 400) {
    const target = answer.headers.location ?? textOf(answer.text, 'Endpoint')
    return { field: 'endpoint', fix: `the bucket is served elsewhere${target === '' ? '' : `, at ${target}`}` }
  }
  switch (code) {
    case 'RequestTimeTooSkewed':
      return { field: 'clock', fix: `${skew(answer, wallMs)}: set the time of this machine (NTP)` }
    case 'NoSuchBucket':
      return { field: 'bucket', fix: `there is no bucket ${place.bucket}: create it, or write another` }
    case 'SignatureDoesNotMatch':
      return { field: 'secret-key', fix: 'the secret key is not that of the access key' }
    case 'InvalidAccessKeyId':
    case 'XAdminUserNotFound': // of versitygw
      return { field: 'access-key', fix: 'the server does not know the access key' }
    case 'ExpiredToken':
    case 'InvalidToken':
    case 'TokenRefreshRequired':
      return { field: 'session-token', fix: 'the session token is no longer good: get new credentials' }
    case 'AuthorizationHeaderMalformed':
      return { field: 'region', fix: `the region ${place.region} is not that of the server` }
    case 'InvalidBucketName':
      return { field: 'bucket', fix: 'the name is no bucket name' }
    default:
      break
  }
  if (answer.status === 403 || answer.status === 401) {
    return { field: 'access-key', fix: 'the access key may not do this: it needs List, Get, Put and Delete of objects' }
  }
  return undefined
}

function regionOf({ headers, text }: Answer): string {
  return headers['x-amz-bucket-region'] ?? textOf(text, 'Region')
}

function skew({ headers }: Answer, wallMs: number): string {
  const serverMs = Date.parse(headers.date ?? '')
  if (Number.isNaN(serverMs)) return "this machine's clock differs too much from the server's"
  const seconds = Math.round((wallMs - serverMs) / 1000)
  return `this machine's clock is ${Math.abs(seconds)} s ${seconds < 0 ? 'behind' : 'ahead of'} the server's`
}
