import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { agentSession } from '../support/agent-session.ts'
import { EngineHome, type EngineProcess, runCommand } from '../support/engine-process.ts'
import { HttpClient, shardOf } from '../support/http-client.ts'
import { until } from '../support/until.ts'

// A router in front of two engines that knows texts alone. One of them served a session of an agent; both run whole.

const MODEL = 'Qwen/Qwen3-8B'
const QUERY = { model: MODEL }
const CHUNK_TOKENS = 256
const SHARD_BYTES = 4096
const COMMAND_MS = 120_000

interface Node {
  readonly home: EngineHome
  readonly engine: EngineProcess
  readonly client: HttpClient
  readonly tokenFile: string
}

const prompts = agentSession(6)
const last = prompts.at(-1)!
let warm: Node
let cold: Node
let promptFile: string

async function start(): Promise<Node> {
  const home = new EngineHome()
  const engine = await home.start()
  const token = await home.token('admin')
  const tokenFile = join(home.folder, 'token')
  writeFileSync(tokenFile, token)
  const client = new HttpClient(engine, token)
  await client.register(MODEL, SHARD_BYTES)
  return { home, engine, client, tokenFile }
}

beforeAll(async () => {
  warm = await start()
  cold = await start()
  promptFile = join(warm.home.folder, 'prompt.txt')
  writeFileSync(promptFile, last)
}, 240_000)
afterAll(async () => {
  await warm?.home.remove()
  await cold?.home.remove()
})

function lookUp({ client }: Node, prompt: string) {
  return client.must('POST', '/v1/lookup', { model: MODEL, prompt, dry_run: true })
}

async function tokensOf({ client }: Node, prompt: string): Promise<number[]> {
  const { tokens } = await client.must('POST', '/tokenize', { model: MODEL, prompt, return_token_strs: false })
  return tokens
}

/** Tokens of the whole chunks that two prompts begin with. */
function sharedTokens(left: readonly number[], right: readonly number[]): number {
  const differs = left.findIndex((token, index) => token !== right[index])
  const shared = differs < 0 ? left.length : differs
  return Math.floor(shared / CHUNK_TOKENS) * CHUNK_TOKENS
}

async function storeRest({ client }: Node, hashes: readonly string[], hitChunks: number): Promise<void> {
  for (const [index, hash] of hashes.entries()) {
    if (index < hitChunks) continue
    const parent = index === 0 ? 'root' : hashes[index - 1]!
    const { status } = await client.put(hash, { ...QUERY, parent }, shardOf(hash, SHARD_BYTES))
    expect(status).toBeLessThan(300)
  }
}

it('a text lookup says, turn by turn of a session, exactly the chunks that the earlier turns left', {
  timeout: 240_000,
}, async () => {
  let before: number[] = []
  for (const prompt of prompts) {
    const tokens = await tokensOf(warm, prompt)
    const found = await lookUp(warm, prompt)
    expect(found).toMatchObject({ prompt_tokens: tokens.length, hit_tokens: sharedTokens(tokens, before) })
    expect(found.hashes.length).toBe(Math.floor(tokens.length / CHUNK_TOKENS))
    await storeRest(warm, found.hashes, found.hit_chunks)
    before = tokens
  }
  expect(before.length).toBeGreaterThan(2 * CHUNK_TOKENS)
})

it('dry runs are not counted and lease nothing', async () => {
  const text = await (await fetch(warm.engine.metricsUrl)).text()
  expect(text).not.toContain('cache_mp_lookup_requested_tokens_total{')
  expect((await lookUp(warm, last)).lease_id).toBeNull()
})

it('a router that asks both engines learns where the prefix is warm', { timeout: 2 * COMMAND_MS }, async () => {
  const urls = [cold, warm].flatMap(({ engine }) => ['--url', engine.httpUrl])
  const argv = ['lookup', '--model', MODEL, '--file', promptFile, '--token-file', warm.tokenFile, ...urls]
  const unauthenticated = await runCommand([...argv, '--json'], COMMAND_MS)
  const { warmest, engines } = JSON.parse(unauthenticated.stdout)
  expect(warmest).toBe(warm.engine.httpUrl)
  expect(engines[0].error).toMatch(/401/) // the token of the other engine
  expect(engines[1].hit_tokens).toBe((await lookUp(warm, last)).hit_tokens)
  const { stdout, code } = await runCommand(argv, COMMAND_MS)
  expect(code).toBe(0)
  expect(stdout.split('\n')[2]).toContain(warm.engine.httpUrl) // the warmest comes first
})

it('says by text how much an engine would have to compute, also when it holds nothing', async () => {
  const tokens = await tokensOf(cold, last)
  expect(await lookUp(cold, last)).toMatchObject({ prompt_tokens: tokens.length, hit_tokens: 0 })
})

it('a prefetch by text brings into L1 what only L2 holds, and a pin by text keeps it there', {
  timeout: 2 * COMMAND_MS,
}, async () => {
  const { client, engine, tokenFile } = warm
  const whole = (await lookUp(warm, last)).hit_tokens
  await until('all chunks are in L2', () => client.isL2Idle(), COMMAND_MS)
  await client.must('POST', '/v1/clear', { model: MODEL, tiers: ['l1'] })
  expect((await lookUp(warm, last)).tiers).toEqual({ l0: 0, l1: 0, l2: whole })

  const argv = ['prefetch', '--model', MODEL, '--file', promptFile, '--url', engine.httpUrl, '--token-file', tokenFile]
  const { stdout, stderr } = await runCommand([...argv, '--json'], COMMAND_MS)
  expect(JSON.parse(stdout), stderr).toMatchObject({ loaded_tokens: whole, resident_tokens: 0 })
  expect((await lookUp(warm, last)).tiers).toEqual({ l0: 0, l1: whole, l2: 0 })

  const pin = await client.must('POST', '/v1/pins', { model: MODEL, prompt: last })
  expect(pin).toMatchObject({ tokens: whole, chunks: whole / CHUNK_TOKENS })
  await client.must('DELETE', `/v1/pins/${pin.pin_id}`)
  const { activities } = await client.must('GET', '/v1/activities?resourceType=pin')
  expect(activities.map(({ action }: { action: string }) => action)).toEqual([
    'ACTIVITY_ACTION_PIN_DELETE',
    'ACTIVITY_ACTION_PIN_CREATE',
  ])
})

it('a chat is looked up as the chat template writes it', async () => {
  const messages = [{ role: 'user', content: last }]
  const chat = await warm.client.must('POST', '/v1/lookup', { model: MODEL, messages, dry_run: true })
  const text = `<|im_start|>user\n${last}<|im_end|>\n<|im_start|>assistant\n`
  expect(chat.hashes).toEqual((await lookUp(warm, text)).hashes)
})
