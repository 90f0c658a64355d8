import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { HttpHarness } from '../../../support/http-harness.ts'

let harness: HttpHarness

beforeEach(async () => {
  harness = await HttpHarness.start()
})

afterEach(() => harness.close())

async function post(url: string, payload: object, headers = {}) {
  const answer = await harness.service.api.inject({ method: 'POST', url, payload, headers })
  return { status: answer.statusCode, body: answer.json() }
}

const chat = [{ role: 'user', content: 'hi' }]

describe('POST /tokenize', () => {
  it('answers with the count, the longest context, the tokens and their strings', async () => {
    const answer = await post('/tokenize', { model: 'acme/bytes', prompt: 'hi' })
    expect(answer).toEqual({
      status: 200,
      body: { count: 2, max_model_len: 1024, tokens: [104, 105], token_strs: ['h', 'i'] },
    })
  })

  it.each([false, null])('leaves token strings out when they are not wanted: %s', async (wanted) => {
    const { body } = await post('/tokenize', { model: 'acme/bytes', prompt: 'hi', return_token_strs: wanted })
    expect(body).toEqual({ count: 2, max_model_len: 1024, tokens: [104, 105] })
  })

  it('takes the prompt when messages are there as well', async () => {
    const { body } = await post('/tokenize', { model: 'acme/bytes', prompt: 'abc', messages: chat })
    expect(body.count).toBe(3)
    expect(harness.tokenizer.queries[0]).toMatchObject({ input: { kind: 'text' }, addSpecialTokens: true })
  })

  it('refuses messages alone, and names the option that allows them', async () => {
    const { status, body } = await post('/tokenize', { model: 'acme/bytes', messages: chat })
    expect([status, body.error.code, body.error.field]).toEqual([400, 'BAD_REQUEST', 'prompt'])
    expect(body.error.message).toContain('--tokenizer-messages-alone')
  })

  it.each([undefined, ''])('takes messages when the prompt is %j and the option is on', async (prompt) => {
    harness.textOptions.allowMessagesAlone = true
    const { status } = await post('/tokenize', { model: 'acme/bytes', prompt, messages: chat })
    expect(status).toBe(200)
    expect(harness.tokenizer.queries[0]).toEqual({
      model: 'acme/bytes',
      input: {
        kind: 'chat',
        messages: chat,
        tools: null,
        addGenerationPrompt: true,
        continueFinalMessage: false,
        templateArguments: {},
        template: null,
      },
      addSpecialTokens: false,
      withStrings: true,
    })
  })

  it('hands the fields of vLLM on', async () => {
    harness.textOptions.allowMessagesAlone = true
    harness.textOptions.allowRequestTemplates = true
    const fields = {
      add_special_tokens: true,
      add_generation_prompt: false,
      continue_final_message: true,
      chat_template: '{{ x }}',
      chat_template_kwargs: { x: 1 },
      tools: [{ type: 'function' }],
    }
    await post('/tokenize', { model: 'acme/bytes', messages: chat, ...fields })
    expect(harness.tokenizer.queries[0]).toMatchObject({
      addSpecialTokens: true,
      input: {
        tools: [{ type: 'function' }],
        addGenerationPrompt: false,
        continueFinalMessage: true,
        templateArguments: { x: 1 },
        template: '{{ x }}',
      },
    })
  })

  const deep = (depth: number): unknown => (depth === 0 ? 'x' : [deep(depth - 1)])
  it.each([
    ['a chat template of its own', { prompt: 'a', chat_template: 'x' }, 'chat_template'],
    ['an open last message with a generation prompt', { prompt: 'a', continue_final_message: true }, 'continue_final'],
    ['deep nesting', { prompt: 'a', messages: [{ role: 'user', content: deep(64) }] }, 'messages'],
    ['deep arguments', { prompt: 'a', chat_template_kwargs: { a: deep(64) } }, 'chat_template_kwargs'],
    ['a message without a role', { prompt: 'a', messages: [{ content: 'x' }] }, 'messages.0.role'],
    ['an unknown field', { prompt: 'a', top_k: 1 }, 'top_k'],
    ['a prompt that is no text', { prompt: ['a'] }, 'prompt'],
    ['nothing to tokenize', {}, 'prompt'],
  ])('refuses %s', async (_what, fields, field) => {
    const { status, body } = await post('/tokenize', { model: 'acme/bytes', ...fields })
    expect([status, body.error.code]).toEqual([400, 'BAD_REQUEST'])
    expect(body.error.field).toContain(field)
  })

  it('says 404 for a model without a tokenizer, and names the option', async () => {
    const { status, body } = await post('/tokenize', { model: 'acme/other', prompt: 'hi' })
    expect([status, body.error.code, body.error.field]).toEqual([404, 'TOKENIZER_UNKNOWN', 'model'])
    expect(body.error.message).toContain('--tokenizer-dir')
  })

  it('needs a token of scope inference when there is one', async () => {
    const read = harness.bearer('read')
    const inference = harness.bearer('inference')
    harness.clock.advance(10_000) // tokens are read again by the clock
    const body = { model: 'acme/bytes', prompt: 'hi' }
    expect((await post('/tokenize', body)).status).toBe(401)
    expect((await post('/tokenize', body, read)).status).toBe(403)
    expect((await post('/tokenize', body, inference)).status).toBe(200)
  })

  it('refuses a body over the limit before reading it', async () => {
    const { status, body } = await post('/tokenize', { model: 'acme/bytes', prompt: 'a'.repeat(10_000_000) })
    expect([status, body.error.code]).toEqual([413, 'PAYLOAD_TOO_LARGE'])
  })
})

describe('POST /detokenize', () => {
  it('answers with the text', async () => {
    const answer = await post('/detokenize', { model: 'acme/bytes', tokens: [104, 105] })
    expect(answer).toEqual({ status: 200, body: { prompt: 'hi' } })
  })

  it('refuses what is no token id', async () => {
    const { status, body } = await post('/detokenize', { model: 'acme/bytes', tokens: [-1] })
    expect([status, body.error.field]).toEqual([400, 'tokens.0'])
  })
})
