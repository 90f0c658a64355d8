import { createHash, createHmac } from 'node:crypto'

/** What signs a request. Never logged. */
export interface Credentials {
  readonly accessKey: string
  readonly secretKey: string
  /** Of temporary credentials; '' for lasting ones. */
  readonly sessionToken: string
}

/** A request as it will go over the wire. */
export interface SignedParts {
  readonly method: string
  /** As in the Host header. */
  readonly host: string
  /** Encoded once by `encodeKey`, beginning with '/'. */
  readonly path: string
  /** Name and value, not encoded. */
  readonly query: readonly (readonly [string, string])[]
  /** Lower-case names. All of them are signed. */
  readonly headers: Readonly<Record<string, string>>
  /** Hex SHA-256 of the body, or UNSIGNED_PAYLOAD. */
  readonly payloadHash: string
}

/** In place of the body's hash: the signature covers the headers alone. */
export const UNSIGNED_PAYLOAD = 'UNSIGNED-PAYLOAD'
export const EMPTY_PAYLOAD_HASH = createHash('sha256').digest('hex')

/**
 * Signs requests to one region of S3 with AWS Signature Version 4, in the Authorization header.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
 */
export class RequestSigner {
  readonly #region: string
  #key: Buffer = Buffer.alloc(0)
  /** What `#key` was made of. */
  #keyDay = ''
  #keySecret = ''

  constructor(region: string) {
    this.#region = region
  }

  /** The headers of a request with the ones that the signature adds. Lower-case names; `host` is left to the client. */
  sign(parts: SignedParts, credentials: Credentials, wallMs: number): Record<string, string> {
    const { method, host, path, query, payloadHash } = parts
    const time = new Date(wallMs).toISOString().replace(/[-:]|\.\d+/g, '')
    const day = time.slice(0, 8)
    const headers: Record<string, string> = {
      ...parts.headers,
      'x-amz-content-sha256': payloadHash,
      'x-amz-date': time,
    }
    if (credentials.sessionToken !== '') headers['x-amz-security-token'] = credentials.sessionToken
    const signed: Record<string, string> = { ...headers, host }
    const names = Object.keys(signed).sort()
    const lines = names.map((name) => `${name}:${signed[name]!.trim().replace(/ +/g, ' ')}\n`).join('')
    const canonical = [method, path, encodeQuery(query), lines, names.join(';'), payloadHash].join('\n')
    const scope = `${day}/${this.#region}/s3/aws4_request`
    const digest = createHash('sha256').update(canonical).digest('hex')
    const text = `AWS4-HMAC-SHA256\n${time}\n${scope}\n${digest}`
    const signature = createHmac('sha256', this.#keyOf(day, credentials.secretKey)).update(text).digest('hex')
    headers.authorization =
      `AWS4-HMAC-SHA256 Credential=${credentials.accessKey}/${scope}, ` +
      `SignedHeaders=${names.join(';')}, Signature=${signature}`
    return headers
  }

  /** The key of a day: the same for every request of it. */
  #keyOf(day: string, secretKey: string): Buffer {
    if (day !== this.#keyDay || secretKey !== this.#keySecret) {
      const words = [day, this.#region, 's3', 'aws4_request']
      this.#key = words.reduce<Buffer>((key, word) => hmac(key, word), Buffer.from(`AWS4${secretKey}`))
      this.#keyDay = day
      this.#keySecret = secretKey
    }
    return this.#key
  }
}

/** A query, encoded and in the order that is signed. '' for none. */
export function encodeQuery(query: readonly (readonly [string, string])[]): string {
  return query
    .map(([name, value]) => [encodeWord(name), encodeWord(value)] as const)
    .sort(([one, oneValue], [other, otherValue]) => order(one, other) || order(oneValue, otherValue))
    .map(([name, value]) => `${name}=${value}`)
    .join('&')
}

/** An object's name as a path: every byte but unreserved ones and '/' is escaped. */
export function encodeKey(key: string): string {
  return key.split('/').map(encodeWord).join('/')
}

/** Hex SHA-256 of the pieces of a body. */
export function payloadHashOf(pieces: readonly Uint8Array[]): string {
  if (pieces.length === 0) return EMPTY_PAYLOAD_HASH
  const hash = createHash('sha256')
  for (const piece of pieces) hash.update(piece)
  return hash.digest('hex')
}

function encodeWord(word: string): string {
  return encodeURIComponent(word).replace(/[!'()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`)
}

function order(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
