import { CacheError, ERRORS, type ErrorKind } from '../../core/errors.ts'

/** HTTP status of each kind of error. The one place that knows both. */
export const STATUS_OF_KIND: Readonly<Record<ErrorKind, number>> = {
  usage: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  too_large: 413,
  too_many: 429,
  internal: 500,
  unavailable: 503,
}

/** Codes that exist only on HTTP, with their status and meaning. */
export const HTTP_ERRORS = {
  METHOD_NOT_ALLOWED: { status: 405, help: 'The path exists, but not with this method; see the Allow header.' },
  REQUEST_TIMEOUT: { status: 408, help: 'The request did not arrive whole in time.' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, help: 'The body is of a type that this route does not take.' },
  HEADERS_TOO_LARGE: { status: 431, help: 'The headers are over the limit.' },
} as const

/** An error that only HTTP knows. */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly code: keyof typeof HTTP_ERRORS

  constructor(code: HttpError['code'], message: string) {
    super(message)
    this.code = code
  }
}

/** Every error body of the API. */
export interface ErrorBody {
  readonly error: {
    readonly code: string
    readonly message: string
    /** The request field at fault. */
    readonly field?: string
    readonly requestId: string
  }
}

export interface MappedError {
  readonly status: number
  readonly body: ErrorBody
  /** Whether the same request may succeed later. */
  readonly isRetryable: boolean
}

// What fastify and its validator throw, as far as it is used here.
interface FrameworkError extends Error {
  readonly code?: string
  readonly statusCode?: number
  readonly validation?: readonly {
    readonly instancePath: string
    readonly keyword: string
    readonly params: Readonly<Record<string, unknown>>
    readonly message?: string
  }[]
  readonly validationContext?: string
}

interface KnownError {
  readonly status: number
  readonly code: string
  readonly field?: string
  readonly message: string
}

const BAD_BODY = { status: 400, code: 'BAD_REQUEST', field: 'body' } as const
const FRAMEWORK_CODES: Readonly<Record<string, KnownError>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: {
    status: 413,
    code: 'PAYLOAD_TOO_LARGE',
    field: 'body',
    message: 'the body is over the limit',
  },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    status: 415,
    code: 'UNSUPPORTED_MEDIA_TYPE',
    field: 'content-type',
    message: 'the content-type is not one that this route takes',
  },
  FST_ERR_CTP_INVALID_JSON_BODY: { ...BAD_BODY, message: 'the body is not valid JSON' },
  FST_ERR_CTP_EMPTY_JSON_BODY: { ...BAD_BODY, message: 'the body is empty; send a JSON object' },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: { ...BAD_BODY, message: 'the body is not as long as the content-length says' },
  FST_ERR_BAD_URL: { status: 400, code: 'BAD_REQUEST', message: 'the URL is not valid' },
}

/** Any error as status and body. Bugs and foreign errors say nothing of themselves: the log has the details. */
export function mapError(error: unknown, requestId: string): MappedError {
  if (error instanceof CacheError) return mapCacheError(error, requestId)
  if (error instanceof HttpError) return mapped(HTTP_ERRORS[error.code].status, error.code, error.message, requestId)
  const foreign = error as FrameworkError
  if (foreign?.validation !== undefined) {
    const { field, message } = describeValidation(foreign)
    return mapped(400, 'BAD_REQUEST', message, requestId, field)
  }
  const known = FRAMEWORK_CODES[foreign?.code ?? '']
  if (known !== undefined) {
    return mapped(known.status, known.code, known.message, requestId, known.field)
  }
  const status = foreign?.statusCode
  if (status !== undefined && status >= 400 && status < 500) {
    return mapped(400, 'BAD_REQUEST', 'the request is not valid', requestId)
  }
  return mapped(500, 'INTERNAL', 'something failed inside kvtier; its log has the details', requestId)
}

function mapCacheError(error: CacheError, requestId: string): MappedError {
  const status = STATUS_OF_KIND[error.kind]
  const message = error.kind === 'internal' ? 'something failed inside kvtier; its log has the details' : error.message
  const field = typeof error.detail.field === 'string' ? error.detail.field : undefined
  return { ...mapped(status, error.code, message, requestId, field), isRetryable: ERRORS[error.code].retryable }
}

function mapped(status: number, code: string, message: string, requestId: string, field?: string): MappedError {
  const error = { code, message, ...(field === undefined ? {} : { field }), requestId }
  return { status, body: { error }, isRetryable: false }
}

// The first failure of the validator: `/tokens/3` must be integer -> field `tokens.3`.
function describeValidation(error: FrameworkError): { field: string; message: string } {
  const part = error.validationContext ?? 'body'
  const first = error.validation?.[0]
  if (first === undefined) return { field: part, message: `the ${part} is not valid` }
  const path = first.instancePath.slice(1).replaceAll('/', '.')
  const prefix = path === '' ? '' : `${path}.`
  if (first.keyword === 'additionalProperties') {
    const field = `${prefix}${String(first.params.additionalProperty)}`.slice(0, 128)
    return { field, message: `${field} is not a field of this request` }
  }
  if (first.keyword === 'required') {
    const field = `${prefix}${String(first.params.missingProperty)}`
    return { field, message: `${field} is required` }
  }
  const field = path === '' ? part : path
  if (first.keyword === 'enum') {
    const allowed = first.params.allowedValues as readonly unknown[]
    return { field, message: `${field} must be one of: ${allowed.join(', ')}` }
  }
  return { field, message: `${field} ${first.message ?? 'is not valid'}` }
}
