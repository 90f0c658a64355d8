import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { hashOf } from '../../../support/engine-double.ts'
import { HttpHarness } from '../../../support/http-harness.ts'

// The tokenizer double makes a token of each byte; a chunk of the engine double is four tokens.

let harness: HttpHarness
const model = 'acme/bytes'

beforeEach(async () => {
  harness = await HttpHarness.start()
  await post('/v1/models', { model, chunk_bytes: 1024 })
  const hash = hashOf(Uint32Array.from(Buffer.from('abcd'))).toString('hex')
  const url = `/v1/chunks/${hash}?${new URLSearchParams({ model, parent: 'root' })}`
  const headers = { 'content-type': 'application/octet-stream' }
  await harness.service.api.inject({ method: 'PUT', url, payload: Buffer.alloc(1024), headers })
})

afterEach(() => harness.close())

async function post(url: string, payload: object, headers = {}) {
  const answer = await harness.service.api.inject({ method: 'POST', url, payload, headers })
  return { status: answer.statusCode, body: answer.json() }
}

describe('POST /v1/lookup by text', () => {
  it('says how many leading tokens of a prompt each tier holds', async () => {
    const { body } = await post('/v1/lookup', { model, prompt: 'abcdefghi', dry_run: true })
    expect(body).toMatchObject({ prompt_tokens: 9, hit_tokens: 4, tiers: { l0: 0, l1: 4, l2: 0 }, lease_id: null })
    expect(harness.tokenizer.queries[0]).toMatchObject({ input: { kind: 'text' }, addSpecialTokens: true })
  })

  it('is the lookup of its tokens', async () => {
    const tokens = [...Buffer.from('abcdefghi')]
    const byText = await post('/v1/lookup', { model, prompt: 'abcdefghi', dry_run: true, request_id: 'r' })
    expect(byText).toEqual(await post('/v1/lookup', { model, tokens, dry_run: true, request_id: 'r' }))
  })

  it('leases what it finds unless it is a dry run', async () => {
    const { body } = await post('/v1/lookup', { model, prompt: 'abcd' })
    expect(body.lease_id).not.toBeNull()
  })

  it('takes messages without any option, and adds no special tokens to them', async () => {
    const messages = [{ role: 'user', content: 'abcd' }]
    const { body } = await post('/v1/lookup', { model, messages, dry_run: true })
    expect(body).toMatchObject({ prompt_tokens: 4, hit_tokens: 4 })
    expect(harness.tokenizer.queries[0]).toMatchObject({ input: { kind: 'chat' }, addSpecialTokens: false })
  })

  it.each([
    ['tokens and a prompt', { model, tokens: [1], prompt: 'a' }, 400, 'tokens'],
    ['neither', { model }, 400, 'tokens'],
    ['a template of the request', { model, prompt: 'a', chat_template: 'x' }, 400, 'chat_template'],
  ])('refuses %s', async (_what, body, status, field) => {
    const answer = await post('/v1/lookup', body)
    expect([answer.status, answer.body.error.field]).toEqual([status, field])
  })

  it('names the option when the model has no tokenizer', async () => {
    const { status, body } = await post('/v1/lookup', { model: 'acme/other', prompt: 'a' })
    expect([status, body.error.code]).toEqual([404, 'TOKENIZER_UNKNOWN'])
    expect(body.error.message).toContain('--tokenizer-dir')
  })
})

describe('POST /v1/prefetch', () => {
  it.each([{ prompt: 'abcdefgh' }, { tokens: [...Buffer.from('abcdefgh')] }])('takes %j', async (what) => {
    const { status, body } = await post('/v1/prefetch', { model, ...what })
    expect([status, body]).toEqual([
      200,
      { model, requested_tokens: 8, resident_tokens: 0, loaded_tokens: 8, chunk_tokens: 4 },
    ])
  })

  it('refuses a model that is not registered', async () => {
    const { status, body } = await post('/v1/prefetch', { model: 'acme/other', tokens: [1] })
    expect([status, body.error.code]).toEqual([409, 'MODEL_UNKNOWN'])
  })
})

it('POST /v1/pins takes text', async () => {
  const headers = harness.bearer('admin')
  harness.clock.advance(10_000)
  const { status, body } = await post('/v1/pins', { model, prompt: 'abcdefgh' }, headers)
  expect([status, body.tokens]).toEqual([201, 8])
})
