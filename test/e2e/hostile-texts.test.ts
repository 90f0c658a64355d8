import { afterAll, beforeAll, expect, it } from 'vitest'
import { bundledModels } from '../../src/tokenizer/bundled-models.ts'
import { NativeEncoder } from '../../src/tokenizer/native-encoder.ts'
import { EngineHome } from '../support/engine-process.ts'
import { HttpClient } from '../support/http-client.ts'

// Long and hostile texts through a whole engine, its tokenizer process included. What is taken has the ids of the
// library itself; what is not taken is answered.

const MODEL = 'Qwen/Qwen3-8B'
const TEXT_MAX = 1024 * 1024
const ASK_MS = 240_000

let home: EngineHome
let client: HttpClient
let library: NativeEncoder

beforeAll(async () => {
  home = new EngineHome()
  // The library's own time is what the machine gives it: a deadline is tested elsewhere.
  const engine = await home.start({ flags: ['--tokenizer-timeout', '200s', '--http-request-timeout', '240s'] })
  client = new HttpClient(engine)
  library = NativeEncoder.open((await bundledModels())[0]!)
}, ASK_MS)
afterAll(() => home.remove())

it.each([
  ['a run of one letter', 'a'.repeat(TEXT_MAX)],
  [
    'letters without a space',
    Array.from({ length: TEXT_MAX }, (_, at) => 'etaoinshrdlu'[((at * at + at) % 97) % 12]).join(''),
  ],
  ['nothing but spaces', ' '.repeat(TEXT_MAX)],
  ['controls', '\u0000\u0001\u007f\u001b[0m'.repeat(20_000)],
  ['families', '👩‍👩‍👧‍👦👍🏽🇩🇪'.repeat(15_000)],
  ['marks on one letter', `e${'\u0301'.repeat(200_000)}`],
  ['right to left', 'שלום \u202eمرحبا\u202c '.repeat(20_000)],
  ['special tokens', '<|im_start|><|im_end'.repeat(40_000)],
])('%s', { timeout: ASK_MS }, async (_what, prompt) => {
  const { status, body } = await client.ask('POST', '/tokenize', { model: MODEL, prompt })
  expect(status).toBe(200)
  const wanted = await library.encode(prompt, true)
  expect(body.count).toBe(wanted.ids.length)
  expect(body.max_model_len).toBe(40_960)
  expect(
    Buffer.from(Uint32Array.from(body.tokens).buffer).equals(Buffer.from(Uint32Array.from(wanted.ids).buffer)),
  ).toBe(true)
  expect(body.token_strs.join('')).toBe(wanted.strings().join(''))
})

it.each([
  ['one byte too many', `${'a'.repeat(TEXT_MAX - 1)}é`, 413, 'PAYLOAD_TOO_LARGE'],
  ['a body of 10 MB', 'a'.repeat(10_000_000), 413, 'PAYLOAD_TOO_LARGE'],
  ['the first half of a pair', 'a\ud83d', 400, 'BAD_REQUEST'],
  ['the second half of a pair', '\udc69a', 400, 'BAD_REQUEST'],
  ['the halves of a pair in the wrong order', '\udc69\ud83d', 400, 'BAD_REQUEST'],
])('refuses %s', { timeout: ASK_MS }, async (_what, prompt, status, code) => {
  const answer = await client.ask('POST', '/tokenize', { model: MODEL, prompt })
  expect([answer.status, answer.body.error.code]).toEqual([status, code])
})

it('answers the others while long texts are under way', { timeout: ASK_MS }, async () => {
  const prompts = [...'abc'].map((letter) => letter.repeat(TEXT_MAX / 4))
  const long = prompts.map((prompt) => client.ask('POST', '/tokenize', { model: MODEL, prompt }))
  const short = await client.ask('POST', '/tokenize', { model: MODEL, prompt: 'hi' })
  expect([short.status, short.body.count]).toEqual([200, 1])
  expect((await client.ask('GET', '/healthz')).status).toBe(200)
  expect((await Promise.all(long)).map(({ status }) => status)).toEqual(Array(3).fill(200))
})
