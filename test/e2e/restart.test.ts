import { existsSync, readdirSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ErrorBody } from '../../src/server/http/error-mapper.ts'
import { EngineHome, type EngineProcess, runCommand } from '../support/engine-process.ts'
import { parseExposition, seriesValue } from '../support/exposition-parser.ts'
import { HttpClient, promptOf, shardOf } from '../support/http-client.ts'
import { random } from '../support/random.ts'
import { until } from '../support/until.ts'

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

/** Asks for prompts 0..count-1 and reads every chunk that hits. @returns chunks that came from L2. */
async function readAll(client: HttpClient, count: number): Promise<number> {
  let fromL2 = 0
  for (let number = 0; number < count; number += 1) {
    const { hashes, hit_chunks, tiers, lease_id } = await client.lookup(MODEL, promptNumber(number))
    for (const [index, hash] of hashes.slice(0, hit_chunks).entries()) {
      const bytes = await client.get(hash, { model: MODEL })
      expect(bytes, `chunk ${index} of prompt ${number} was promised`).toBeDefined()
      expect(Buffer.compare(bytes!, shardOf(hash, SHARD_BYTES)), `chunk ${index} of prompt ${number}`).toBe(0)
    }
    fromL2 += tiers.l2 / CHUNK_TOKENS
    await client.release(lease_id)
  }
  return fromL2
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
      const fromL2 = await readAll(client, prompts)
      if (round > 1) {
        expect(files.length, `objects in round ${round}`).toBeGreaterThan(0)
        expect(fromL2, `chunks from L2 in round ${round}`).toBeGreaterThan(0)
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

  it('leaves no shared memory behind once an engine of the directory ran again', async () => {
    const killed = await home.start({ flags: FLAGS })
    await killed.stop('SIGKILL')
    expect(existsSync(home.segmentPath)).toBe(true)
    const again = await home.start({ flags: FLAGS, l1Size: '32MiB' })
    expect(statSync(home.segmentPath).size).toBe(32 * 1024 ** 2)
    expect(await again.stop()).toBe(0)
    expect(existsSync(home.segmentPath)).toBe(false)
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
    expect(existsSync(home.segmentPath)).toBe(false)
    expect(objectFiles(home.dataDir)).toHaveLength(prompts * CHUNKS_OF_A_PROMPT)

    const again = await home.start({ flags: FLAGS })
    const client = new HttpClient(again)
    await client.register(MODEL, SHARD_BYTES)
    expect(await readAll(client, prompts)).toBe(prompts * CHUNKS_OF_A_PROMPT)
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
