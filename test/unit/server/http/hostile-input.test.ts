import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { HttpHarness } from '../../../support/http-harness.ts'

const SEED = 20_261_121
const RUNS = 400

let harness: HttpHarness
let admin: { authorization: string }

beforeAll(async () => {
  harness = await HttpHarness.start()
  admin = harness.bearer('admin')
})

afterAll(() => harness.close())

type Answer = Awaited<ReturnType<HttpHarness['service']['api']['inject']>>

const REQUEST_ERRORS = [400, 404, 405, 409, 413, 415]

/** The answer is an error in the one shape, caused by the request, and the engine is as it was. */
async function expectRefused(ask: () => PromiseLike<Answer>): Promise<void> {
  const before = [harness.engine.changes, harness.activities.read({}, 1n, 1).total]
  const answer = await ask()
  expect(REQUEST_ERRORS).toContain(answer.statusCode)
  const body = answer.json()
  expect(Object.keys(body)).toEqual(['error'])
  const { code, message, field = '', requestId, ...rest } = body.error
  for (const text of [code, message, field, requestId]) expect(typeof text).toBe('string')
  expect(rest).toEqual({})
  expect(requestId).toBe(answer.headers['x-request-id'])
  expect(message).not.toContain('\n')
  expect([harness.engine.changes, harness.activities.read({}, 1n, 1).total]).toEqual(before)
}

const rubbish = fc.oneof(
  fc.anything({ withNullPrototype: false }),
  fc.record({ model: fc.anything(), tokens: fc.anything(), cache_salt: fc.anything() }, { requiredKeys: [] }),
  fc.record(
    { model: fc.constant('m'), tokens: fc.array(fc.double()), ranks: fc.double() },
    { requiredKeys: ['model'] },
  ),
)

// A field that no schema knows makes every body wrong, whatever else it holds.
function spoiled(value: unknown): string {
  const object = typeof value === 'object' && value !== null && !Array.isArray(value) ? value : { value }
  return JSON.stringify({ ...object, 'no such field': 1 }, (_key, inner) =>
    typeof inner === 'bigint' ? String(inner) : (inner as unknown),
  )
}

it.each([
  ['POST', '/v1/lookup'],
  ['POST', '/v1/models'],
  ['POST', '/v1/clear'],
  ['POST', '/v1/pins'],
] as const)(`%s %s refuses any wrong JSON and changes nothing (seed ${SEED})`, async (method, url) => {
  const headers = { ...admin, 'content-type': 'application/json' }
  await fc.assert(
    fc.asyncProperty(rubbish, (value) =>
      expectRefused(() => harness.service.api.inject({ method, url, headers, payload: spoiled(value) })),
    ),
    { seed: SEED, numRuns: RUNS },
  )
})

it.each([
  ['POST', '/v1/models', 'application/json'],
  ['POST', '/v1/clear', 'application/json'],
  ['POST', '/v1/pins', 'application/json'],
  ['POST', '/v1/lookup', 'application/json'],
  ['POST', '/v1/lookup', 'application/octet-stream'],
  ['PUT', `/v1/chunks/${'ab'.repeat(32)}?model=m&parent=root`, 'application/octet-stream'],
] as const)(`%s %s as %s refuses random bytes (seed ${SEED})`, async (method, url, type) => {
  const headers = { ...admin, 'content-type': type }
  await fc.assert(
    fc.asyncProperty(fc.uint8Array({ maxLength: 4096 }), (bytes) =>
      expectRefused(() => harness.service.api.inject({ method, url, headers, payload: Buffer.from(bytes) })),
    ),
    { seed: SEED, numRuns: RUNS / 4 },
  )
})

const CHUNK = `/v1/chunks/${'ab'.repeat(32)}`
it.each(['/v1/activities', '/v1/models', '/v1/pins', '/status', '/healthz', '/openapi.json', CHUNK])(
  `GET %s refuses any query that it does not know (seed ${SEED})`,
  async (path) => {
    await fc.assert(
      fc.asyncProperty(fc.webQueryParameters(), fc.string({ unit: 'binary' }), (query, text) => {
        const url = `${path}?no-such-name=${encodeURIComponent(text.toWellFormed())}&${query}`
        return expectRefused(() => harness.service.api.inject({ method: 'GET', url, headers: admin }))
      }),
      { seed: SEED, numRuns: RUNS / 4 },
    )
  },
)

it(`any path is answered in the one shape (seed ${SEED})`, async () => {
  const segment = fc.oneof(
    fc.webSegment(),
    fc.constantFrom('v1', 'chunks', 'pins', '..', '%2e', '%00', '%zz', '%c3%28'),
  )
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom('GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS'),
      fc.array(segment),
      (method, parts) => {
        const url = `/nowhere/${parts.join('/')}`
        return expectRefused(() => harness.service.api.inject({ method: method as 'GET', url, headers: admin }))
      },
    ),
    { seed: SEED, numRuns: RUNS },
  )
})

// A body that is not validated because its media type is spelt otherwise would pass everything.
it.each([
  'application/json; charset=utf-8',
  'APPLICATION/JSON',
  'application/json ;x=y',
  'application/json\t',
  'application/json;',
  'application/json,text/plain',
  'application/jsonx',
  'application/vnd.x+json',
  ' application/json',
])('the body of type %j is judged or refused', async (type) => {
  const headers = { ...admin, 'content-type': type }
  for (const url of ['/v1/lookup', '/v1/clear']) {
    const payload = JSON.stringify({ model: 5, tokens: 'no' })
    await expectRefused(() => harness.service.api.inject({ method: 'POST', url, headers, payload }))
  }
})
