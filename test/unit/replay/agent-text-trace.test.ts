import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ChunkHasher } from '../../../src/core/chunk-hash.ts'
import { CacheError } from '../../../src/core/errors.ts'
import { HashChain } from '../../../src/core/hash-chain.ts'
import { type AgentTextOptions, parseAgentLine, readAgentTextTrace } from '../../../src/replay/agent-text-trace.ts'
import { NO_SESSION, TraceBatch } from '../../../src/replay/trace-batch.ts'

const CHUNK_TOKENS = 4

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvtier-agents-'))
})
afterAll(() => rmSync(directory, { recursive: true }))

/** A token for each letter; prompts begin with a token of their own. */
async function encode(text: string, isPrompt: boolean): Promise<Uint32Array> {
  if (!text.isWellFormed()) throw new CacheError('BAD_REQUEST', 'prompt is not valid Unicode')
  const letters = [...text].map((letter) => letter.codePointAt(0)!)
  return Uint32Array.from(isPrompt ? [1, ...letters] : letters)
}

function line(input: string, session: string | number = 's', timestamp = 5_000): string {
  return JSON.stringify({ timestamp, input, output: 'done', session_id: session })
}

function file(name: string, lines: readonly string[] | Uint8Array): string {
  const path = join(directory, name)
  writeFileSync(path, lines instanceof Uint8Array ? lines : `${lines.join('\n')}\n`)
  return path
}

interface Read {
  readonly input: number
  readonly output: number
  readonly timeMs: number
  readonly hashes: readonly string[]
  readonly session: number
  readonly isLast: boolean
}

function requestsOf(batch: TraceBatch): Read[] {
  return Array.from({ length: batch.count }, (_, index) => {
    const chain = new HashChain(0)
    batch.keysOf(index, chain)
    return {
      input: batch.inputTokens[index]!,
      output: batch.outputTokens[index]!,
      timeMs: batch.timestampMs[index]!,
      hashes: Array.from({ length: chain.count }, (_none, chunk) => chain.hex(chunk)),
      session: batch.session[index]!,
      isLast: batch.endsSession[index] === 1,
    }
  })
}

async function read(path: string, options: Partial<AgentTextOptions> = {}, encoder = encode): Promise<Read[]> {
  const all: Read[] = []
  for await (const batch of readAgentTextTrace(path, encoder, { chunkTokens: CHUNK_TOKENS, ...options })) {
    all.push(...requestsOf(batch))
  }
  return all
}

describe('reading a trace of agents', () => {
  it('gives each prompt the hashes that the engine gives it, and the lengths of both texts', async () => {
    const [request] = await read(file('one.jsonl', [line('eleven more', 's', 1_760_428_221_546_118)]))
    const chain = new HashChain(0)
    const hasher = await ChunkHasher.create()
    hasher.extend(chain, await encode('eleven more', true), CHUNK_TOKENS)
    expect(request).toMatchObject({ input: 12, output: 4, timeMs: 1_760_428_221_546.118 })
    expect(request!.hashes).toEqual([chain.hex(0), chain.hex(1), chain.hex(2)])
  })

  it('numbers sessions in order of their first requests, and marks the last request of each', async () => {
    const lines = [line('a', 'x'), line('b', 7), line('c', 'x'), line('d', '7'), line('e', 'z')]
    const requests = await read(file('sessions.jsonl', lines))
    expect(requests.map(({ session }) => session)).toEqual([0, 1, 0, 1, 2])
    expect(requests.map(({ isLast }) => isLast)).toEqual([false, false, true, true, true])
  })

  it('ends no session that a limit cuts short, and looks at no line behind it', async () => {
    const path = file('limit.jsonl', [line('a', 'x'), line('b', 'y'), line('c', 'x'), 'nonsense'])
    const requests = await read(path, { limit: 2 })
    expect(requests.map(({ isLast }) => isLast)).toEqual([false, true])
  })

  it('keeps the order of the file whatever the texts take, and tokenizes few lines ahead', async () => {
    const texts = Array.from({ length: 60 }, (_, index) => 'x'.repeat(index))
    let under = 0
    let most = 0
    const slow = async (text: string, isPrompt: boolean) => {
      under += 1
      most = Math.max(most, under)
      for (let turn = 0; turn < 60 - text.length; turn += 1) await null
      under -= 1
      return await encode(text, isPrompt)
    }
    const path = file(
      'order.jsonl',
      texts.map((text) => line(text)),
    )
    const requests = await read(path, { linesAhead: 5 }, slow)
    expect(requests.map(({ input }) => input)).toEqual(texts.map((text) => text.length + 1))
    expect(most).toBeGreaterThan(1)
    expect(most).toBeLessThanOrEqual(10) // two texts a line
  })

  it('gives batches of about the size asked for, from a zipped file too', async () => {
    const lines = Array.from({ length: 20 }, (_, index) => line('x'.repeat(11), `${index}`))
    const path = file('zipped.jsonl.gz', gzipSync(lines.join('\n')))
    const sizes: number[] = []
    const options = { chunkTokens: CHUNK_TOKENS, batchBlocks: 9 }
    for await (const batch of readAgentTextTrace(path, encode, options)) sizes.push(batch.count)
    expect(sizes).toEqual([3, 3, 3, 3, 3, 3, 2])
  })

  it('tells how many bytes of the file are done', async () => {
    const path = file('progress.jsonl', Array(30).fill(line('x'.repeat(7))))
    const progress = { bytesTaken: 0 }
    const seen: number[] = []
    const options = { chunkTokens: CHUNK_TOKENS, batchBlocks: 2 }
    for await (const _ of readAgentTextTrace(path, encode, options, progress)) seen.push(progress.bytesTaken)
    const lineBytes = line('x'.repeat(7)).length + 1
    expect(seen).toEqual(Array.from({ length: 30 }, (_, index) => (index + 1) * lineBytes))
  })

  it('names file, line and reason of a bad line', async () => {
    const path = file('bad.jsonl', [line('a'), '', '{"timestamp": 1'])
    await expect(read(path)).rejects.toMatchObject({ code: 'TRACE_INVALID', message: `${path}:3: not valid JSON` })
  })

  it('names the line of a text that cannot be tokenized', async () => {
    const path = file('surrogate.jsonl', [line('a'), line('\ud800'), line('b')])
    const message = `${path}:2: a text cannot be tokenized: prompt is not valid Unicode`
    await expect(read(path)).rejects.toMatchObject({ code: 'TRACE_INVALID', message })
  })

  it('does not blame a line for a tokenizer that is not there', async () => {
    const missing = () => Promise.reject(new CacheError('TOKENIZER_UNKNOWN', 'no such model'))
    await expect(read(file('fine.jsonl', [line('a')]), {}, missing)).rejects.toMatchObject({
      code: 'TOKENIZER_UNKNOWN',
    })
  })

  it('bounds the length of a line', async () => {
    const path = file('huge.jsonl', [line('a'), line('x'.repeat(5000))])
    await expect(read(path, { lineBytesMax: 1000 })).rejects.toMatchObject({
      message: `${path}:2: longer than 1000 bytes`,
    })
  })
})

it.each([
  ['[]', 'not a JSON object'],
  [{ timestamp: undefined }, 'timestamp is missing, not microseconds of 0 or more'],
  [{ timestamp: 1.5 }, 'timestamp is 1.5, not microseconds of 0 or more'],
  [{ input: ['a'] }, 'input is ["a"], not a text'],
  [{ output: null }, 'output is null, not a text'],
  [{ session_id: {} }, 'session_id is {}, neither a text nor a whole number'],
])('refuses %j with a reason', (fields, reason) => {
  const good = { timestamp: 0, input: 'a', output: 'b', session_id: 's' }
  const text = typeof fields === 'string' ? fields : JSON.stringify({ ...good, ...fields })
  expect(parseAgentLine(text)).toBe(reason)
})

it('a batch of ids alone has keys of its own making, and no sessions', () => {
  const batch = new TraceBatch()
  batch.push(0, 1024, 1, [5, 6], 2)
  const chain = new HashChain(0)
  batch.keysOf(0, chain)
  expect(chain.count).toBe(2)
  expect([batch.session[0], batch.endsSession[0]]).toEqual([NO_SESSION, 0])
})
