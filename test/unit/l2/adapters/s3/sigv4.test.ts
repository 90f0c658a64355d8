import { PutObjectCommand, S3Client, type S3ClientConfig } from '@aws-sdk/client-s3'
import { describe, expect, it } from 'vitest'
import {
  EMPTY_PAYLOAD_HASH,
  encodeKey,
  encodeQuery,
  payloadHashOf,
  RequestSigner,
  type SignedParts,
} from '../../../../../src/l2/adapters/s3/sigv4.ts'
import { random } from '../../../../support/random.ts'

/** The examples of https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html */
const CREDENTIALS = {
  accessKey: 'AKIAIOSFODNN7EXAMPLE',
  secretKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  sessionToken: '',
}
const WALL_MS = Date.UTC(2013, 4, 24)
const BASE = { method: 'GET', host: 'examplebucket.s3.amazonaws.com', path: '/', query: [], headers: {} } as const
const EXAMPLES: Record<string, { parts: Omit<SignedParts, 'payloadHash'>; body: string; signature: string }> = {
  'GET of a range of an object': {
    parts: { ...BASE, path: '/test.txt', headers: { range: 'bytes=0-9' } },
    body: '',
    signature: 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41',
  },
  'PUT of an object': {
    parts: {
      ...BASE,
      method: 'PUT',
      path: encodeKey('/test$file.text'),
      headers: { date: 'Fri, 24 May 2013 00:00:00 GMT', 'x-amz-storage-class': 'REDUCED_REDUNDANCY' },
    },
    body: 'Welcome to Amazon S3.',
    signature: '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  },
  'GET of a subresource without a value': {
    parts: { ...BASE, query: [['lifecycle', '']] },
    body: '',
    signature: 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543',
  },
  'GET of a listing': {
    parts: {
      ...BASE,
      query: [
        ['prefix', 'J'],
        ['max-keys', '2'],
      ],
    },
    body: '',
    signature: '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7',
  },
}

describe('the signer', () => {
  it.each(Object.entries(EXAMPLES))('signs the published %s', (_name, { parts, body, signature }) => {
    const payloadHash = payloadHashOf(body === '' ? [] : [Buffer.from(body.slice(0, 5)), Buffer.from(body.slice(5))])
    const headers = new RequestSigner('us-east-1').sign({ ...parts, payloadHash }, CREDENTIALS, WALL_MS)
    expect(headers.authorization?.split('Signature=')[1]).toBe(signature)
    expect(headers['x-amz-date']).toBe('20130524T000000Z')
  })

  it('makes a new key when the day or the secret changes', () => {
    const signer = new RequestSigner('us-east-1')
    const sign = (secretKey: string, wallMs: number) =>
      signer.sign({ ...BASE, payloadHash: EMPTY_PAYLOAD_HASH }, { ...CREDENTIALS, secretKey }, wallMs).authorization
    const first = sign('one', WALL_MS)
    expect(sign('two', WALL_MS)).not.toBe(first)
    expect(sign('one', WALL_MS + 86_400_000)).not.toBe(first)
    expect(sign('one', WALL_MS)).toBe(first)
  })

  it('sorts a query by encoded names, and escapes all but unreserved characters', () => {
    expect(
      encodeQuery([
        ['b', "x y/~'()*!"],
        ['a', 'é'],
        ['a', '&'],
      ]),
    ).toBe('a=%26&a=%C3%A9&b=x%20y%2F~%27%28%29%2A%21')
    expect(encodeKey('a b/c+d=é')).toBe('a%20b/c%2Bd%3D%C3%A9')
  })

  // Oracle: the AWS SDK. Its request is caught before it is sent, and signed again.
  it.each([1, 2, 3])('signs what the AWS SDK signs, alike (seed %i)', async (seed) => {
    const next = random(seed)
    for (let step = 0; step < 20; step += 1) {
      const hasToken = next(2) === 0
      const keys = {
        accessKey: word(next, 20),
        secretKey: word(next, 40),
        sessionToken: hasToken ? word(next, 80) : '',
      }
      const region = `eu-west-${next(9)}`
      const body = Buffer.from(word(next, next(200)))
      const caught = await caughtRequest(keys, region, next(2) === 0, word(next, 10), word(next, 30), body)
      const { authorization = '' } = caught.headers
      const names = /SignedHeaders=([^,]*)/.exec(authorization)![1]!.split(';')
      const own = ['host', 'x-amz-content-sha256', 'x-amz-date', 'x-amz-security-token']
      const headers = Object.fromEntries(
        names.filter((name) => !own.includes(name)).map((name) => [name, caught.headers[name]!]),
      )
      const parts = {
        method: caught.method,
        host: caught.headers.host!,
        path: caught.path,
        query: Object.entries(caught.query ?? {}) as [string, string][],
        headers,
        payloadHash: caught.headers['x-amz-content-sha256']!,
      }
      expect(new RequestSigner(region).sign(parts, keys, timeOf(caught.headers['x-amz-date']!)).authorization).toBe(
        authorization,
      )
    }
  })
})

interface CaughtRequest {
  readonly method: string
  readonly path: string
  readonly query?: Record<string, string | null | string[]>
  readonly headers: Record<string, string>
}

async function caughtRequest(
  { accessKey, secretKey, sessionToken }: typeof CREDENTIALS,
  region: string,
  forcePathStyle: boolean,
  bucket: string,
  key: string,
  body: Buffer,
): Promise<CaughtRequest> {
  let caught: CaughtRequest | undefined
  const requestHandler = {
    handle: async (request: CaughtRequest) => {
      caught = request
      throw new Error('caught')
    },
  }
  const client = new S3Client({
    region,
    forcePathStyle,
    endpoint: 'https://s3.example.test',
    credentials: {
      accessKeyId: accessKey,
      secretAccessKey: secretKey,
      ...(sessionToken === '' ? {} : { sessionToken }),
    },
    maxAttempts: 1,
    requestHandler: requestHandler as unknown as NonNullable<S3ClientConfig['requestHandler']>,
  })
  const command = new PutObjectCommand({ Bucket: bucket, Key: key, Body: body, Metadata: { note: ' two  words ' } })
  await client.send(command).catch(() => undefined)
  return caught!
}

/** Letters that must be escaped, and others. */
function word(next: (below: number) => number, length: number): string {
  const letters = "abcdefghijklmnopqrstuvwxyz0123456789+=$ é!'()*~"
  return `a${Array.from({ length }, () => letters[next(letters.length)]).join('')}`
}

function timeOf(text: string): number {
  return Date.parse(text.replace(/(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z/, '$1-$2-$3T$4:$5:$6Z'))
}
