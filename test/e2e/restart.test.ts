import { readdirSync, rmSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { SegmentFile } from '../../src/native/segment-file.ts'
import type { ErrorBody } from '../../src/server/http/error-mapper.ts'
import { EngineHome, type EngineProcess, runCommand } from '../support/engine-process.ts'
import { parseExposition, seriesValue } from '../support/exposition-parser.ts'
import { HttpClient, promptOf, shardOf } from '../support/http-client.ts'
import { random } from '../support/random.ts'
import { until } from '../support/until.ts'

// Each test starts several engines, and a busy machine takes long for that.
vi.setConfig({ testTimeout: 240_000 })

const MODEL = 'restart-model'
const SHARD_BYTES = 256 * 1024
const CHUNK_TOKENS = 16
const CHUNKS_OF_A_PROMPT = 6
const FLAGS = ['--chunk-tokens', `${CHUNK_TOKENS}`, '--log-level', 'warn']
const CONNECTIONS = 6
const ROUNDS = 3

let home: EngineHome

beforeEach(() => {
  home = new EngineHome()
})
afterEach(() => home.remove())

function promptNumber(number: number): number[] {
  return promptOf(number, CHUNKS_OF_A_PROMPT * CHUNK_TOKENS)
}

/** Stores prompts first, first + 1, ... on several connections until the engine is gone. @returns prompts begun. */
async function storeUntilKilled(engine: EngineProcess, first: number, killed: { readonly value: boolean }) {
  const client = new HttpClient(engine)
  let next = first
  const connection = async () => {
    while (!killed.value) {
      const number = next
      next += 1
      await client.store({ model: MODEL }, promptNumber(number), SHARD_BYTES)
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: CONNECTIONS }, connection))
  if (!killed.value) throw ends.find((end) => end.status === 'rejected')!.reason
  return next - first
}

/** Paths of the published objects. */
function objectFiles(dataDir: string): string[] {
  const folder = join(dataDir, 'l2')
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((path) => /\/objects\/.*\/[0-9a-f]{64}$/.test(path))
    .map((path) => join(folder, path))
}

async function l2UsageBytes(engine: EngineProcess): Promise<number | undefined> {
  const exposition = parseExposition(await (await fetch(engine.metricsUrl)).text())
  return seriesValue(exposition, 'cache_mp_l2_usage_bytes', { l2_name: 'disk' })
}

/** Asks for prompts 0..count-1 and reads every chunk that hits. @returns chunks by the tier they came from. */
async function readAll(client: HttpClient, count: number): Promise<{ l1: number; l2: number }> {
  const from = { l1: 0, l2: 0 }
  for (let number = 0; number < count; number += 1) {
    const { hashes, hit_chunks, tiers, lease_id } = await client.lookup(MODEL, promptNumber(number))
    for (const [index, hash] of hashes.slice(0, hit_chunks).entries()) {
      const bytes = await client.get(hash, { model: MODEL })
      expect(bytes, `chunk ${index} of prompt ${number} was promised`).toBeDefined()
      expect(Buffer.compare(bytes!, shardOf(hash, SHARD_BYTES)), `chunk ${index} of prompt ${number}`).toBe(0)
    }
    from.l1 += tiers.l1 / CHUNK_TOKENS
    from.l2 += tiers.l2 / CHUNK_TOKENS
    await client.release(lease_id)
  }
  return from
}

async function actions(client: HttpClient): Promise<string[]> {
  const { activities } = await client.must('GET', '/v1/activities?resourceType=engine&size=100')
  return activities.map(({ action }: { action: string }) => action)
}

describe('an engine killed in the middle of a store load', () => {
  it.each([101, 202])('serves after each restart only what it stored, whole (seed %i)', async (seed) => {
    const next = random(seed)
    let prompts = 0
    for (let round = 1; round <= ROUNDS; round += 1) {
      const engine = await home.start({ flags: FLAGS })
      const client = new HttpClient(engine)
      const files = objectFiles(home.dataDir)
      const bytes = files.reduce((sum, path) => sum + statSync(path).size, 0)
      expect(await l2UsageBytes(engine), `round ${round}`).toBe(bytes)
      await client.register(MODEL, SHARD_BYTES)
      const from = await readAll(client, prompts)
      if (round > 1) {
        expect(files.length, `objects in round ${round}`).toBeGreaterThan(0)
        expect(from.l1, `chunks from L1 in round ${round}`).toBeGreaterThan(0)
        expect(await actions(client)).toEqual(expect.arrayContaining(['ACTIVITY_ACTION_ENGINE_RECOVER']))
      }
      const killed = { value: false }
      const storing = storeUntilKilled(engine, prompts, killed)
      await until('the first objects', () => (objectFiles(home.dataDir).length > files.length ? true : undefined))
      await pause(next(300))
      killed.value = true
      expect(await engine.stop('SIGKILL')).toBe(null)
      prompts += await storing
    }
  })

  it('is recorded as recovered, also when a start failed in between', async () => {
    const killed = await home.start({ flags: FLAGS })
    await killed.stop('SIGKILL')
    const failed = ['serve', '--data-dir', home.dataDir, '--http-host', '0.0.0.0', '--l1-size', '16MiB']
    expect((await runCommand(failed)).code).toBe(2)
    const again = await home.start({ flags: FLAGS })
    expect(await actions(new HttpClient(again))).toEqual([
      'ACTIVITY_ACTION_ENGINE_START',
      'ACTIVITY_ACTION_ENGINE_RECOVER',
      'ACTIVITY_ACTION_ENGINE_START',
    ])
  })
})

describe('L1 over restarts', () => {
  const PROMPTS = 5
  const CHUNKS = PROMPTS * CHUNKS_OF_A_PROMPT

  async function startWithPrompts(): Promise<EngineProcess> {
    const engine = await home.start({ flags: FLAGS })
    const client = new HttpClient(engine)
    await client.register(MODEL, SHARD_BYTES)
    for (let number = 0; number < PROMPTS; number += 1) {
      await client.store({ model: MODEL }, promptNumber(number), SHARD_BYTES)
    }
    return engine
  }

  it.each(['SIGKILL', 'SIGTERM'] as const)('is taken over whole and in place after %s', async (signal) => {
    let engine = await startWithPrompts()
    const { ino } = statSync(home.segmentPath)
    for (let round = 0; round < 2; round += 1) {
      await engine.stop(signal)
      engine = await home.start({ flags: FLAGS })
      expect(statSync(home.segmentPath).ino).toBe(ino)
      expect(await readAll(new HttpClient(engine), PROMPTS)).toEqual({ l1: CHUNKS, l2: 0 })
      const exposition = parseExposition(await (await fetch(engine.metricsUrl)).text())
      const labels = { model_name: MODEL, cache_salt: '' }
      expect(seriesValue(exposition, 'cache_mp_l1_recovered_chunks_total', labels)).toBe(CHUNKS)
    }
  })

  it('keeps its size when none is given, whatever memory is free by then', async () => {
    let engine = await home.start({ flags: FLAGS, l1Size: '16MiB' })
    await engine.stop('SIGKILL')
    engine = await home.start({ flags: FLAGS, l1Size: '' })
    expect(statSync(home.segmentPath).size).toBe(16 * 1024 ** 2)
    expect(engine.stderr).toBe('')
  })

  it.each([
    ['the size of L1', { flags: FLAGS, l1Size: '32MiB' }, '--l1-size is 32MiB and was 64MiB'],
    [
      'the size of chunks',
      { flags: ['--chunk-tokens', '32', '--log-level', 'warn'] },
      '--chunk-tokens is 32 and was 16',
    ],
  ])('starts cold after a change of %s, and says so', async (_what, options, reason) => {
    const killed = await startWithPrompts()
    await killed.stop('SIGKILL')
    const engine = await home.start(options)
    expect(engine.stderr).toContain(`L1 starts cold: ${reason}`)
    const files = readdirSync('/dev/shm').filter((name) => name.startsWith(basename(home.segmentPath)))
    expect(files.sort()).toEqual(
      ['', '.index', '.index.keep', '.journal', '.keep'].map((part) => basename(home.segmentPath) + part),
    )
  })

  it('is verified: a chunk whose bytes changed meanwhile is dropped with what follows it', async () => {
    const killed = await startWithPrompts()
    await until('the checksums', () => (objectFiles(home.dataDir).length === CHUNKS ? true : undefined))
    await pause(200) // for checksums that are still being computed
    await killed.stop('SIGKILL')
    const segment = SegmentFile.open(basename(home.segmentPath))
    segment.write(8 * SHARD_BYTES + 77, Buffer.from('oops'))
    segment.close()
    const engine = await home.start({ flags: FLAGS })
    const { l1, l2 } = await readAll(new HttpClient(engine), PROMPTS)
    expect(l1 + l2).toBe(CHUNKS)
    expect(l2).toBeGreaterThan(0)
    const exposition = parseExposition(await (await fetch(engine.metricsUrl)).text())
    expect(seriesValue(exposition, 'cache_mp_checksum_failures_total', { tier: 'l1' })).toBe(1)
  })

  it('starts cold when its memory was removed, and says so', async () => {
    const killed = await startWithPrompts()
    await killed.stop('SIGKILL')
    for (const part of ['', '.keep']) rmSync(home.segmentPath + part)
    const engine = await home.start({ flags: FLAGS })
    expect(engine.stderr).toContain(`L1 starts cold: ${home.segmentPath} was removed`)
    const client = new HttpClient(engine)
    await client.register(MODEL, SHARD_BYTES)
    expect(await readAll(client, PROMPTS)).toEqual({ l1: 0, l2: expect.any(Number) })
  })
})

describe('an engine stopped in order', () => {
  it('has what was stored when it starts again', async () => {
    const stopped = await home.start({ flags: FLAGS })
    const before = new HttpClient(stopped)
    await before.register(MODEL, SHARD_BYTES)
    const prompts = 5
    for (let number = 0; number < prompts; number += 1) {
      await before.store({ model: MODEL }, promptNumber(number), SHARD_BYTES)
    }
    expect(await stopped.stop('SIGTERM')).toBe(0) // at once: what is queued for L2 is stored first
    expect(objectFiles(home.dataDir)).toHaveLength(prompts * CHUNKS_OF_A_PROMPT)

    const again = await home.start({ flags: FLAGS })
    const client = new HttpClient(again)
    await client.register(MODEL, SHARD_BYTES)
    expect(await readAll(client, prompts)).toEqual({ l1: prompts * CHUNKS_OF_A_PROMPT, l2: 0 })
    expect(await actions(client)).toEqual([
      'ACTIVITY_ACTION_ENGINE_START',
      'ACTIVITY_ACTION_ENGINE_STOP',
      'ACTIVITY_ACTION_ENGINE_START',
    ])
    expect(await again.stop('SIGINT')).toBe(0)
  })

  it('in the middle of a load ends at once, and has kept every chunk that it said it stored', async () => {
    const engine = await home.start({ flags: FLAGS })
    const client = new HttpClient(engine)
    await client.register(MODEL, SHARD_BYTES)
    const stored: string[] = []
    const refusals: unknown[] = []
    const connection = async (first: number) => {
      for (let number = first; ; number += CONNECTIONS) {
        const { hashes } = await client.lookup(MODEL, promptNumber(number))
        for (const [index, hash] of hashes.entries()) {
          const query = { model: MODEL, parent: hashes[index - 1] ?? 'root' }
          const { status, body } = await client.put(hash, query, shardOf(hash, SHARD_BYTES))
          if (status === 201) stored.push(hash)
          else refusals.push(body)
        }
      }
    }
    const ends = Promise.allSettled(Array.from({ length: CONNECTIONS }, (_, first) => connection(first)))
    await until('a load', () => (stored.length > 30 ? true : undefined))
    expect(await engine.stop()).toBe(0)
    await ends
    const onDisk = new Set(objectFiles(home.dataDir).map((path) => basename(path)))
    expect(stored.filter((hash) => !onDisk.has(hash))).toEqual([])
    expect(refusals.filter((body) => (body as ErrorBody).error.code !== 'SHUTTING_DOWN')).toEqual([])
    expect(engine.stderr).toBe('kvtier: SIGTERM, stopping\n')
  })
})
