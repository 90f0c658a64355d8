import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { parseExposition } from '../support/exposition-parser.ts'
import { GoodClient } from '../support/good-client.ts'
import { MpFuzzer } from '../support/mp-fuzzer.ts'
import { until } from '../support/until.ts'

// KVTIER_FUZZ_SEED replays a run; KVTIER_FUZZ_SECONDS makes it longer. Every run prints its seed.
const SEED = Number(process.env.KVTIER_FUZZ_SEED ?? Date.now() % 1_000_000)
const SECONDS = Number(process.env.KVTIER_FUZZ_SECONDS ?? 75)

const MIB = 1024 * 1024
/**
 * What the engine may hold beside L1: some 100 MiB at rest; 340 MiB of sessions, remembered prompts and keys when they
 * are full; 16 messages of 20 MiB of a peer that sends faster than it is served; and what the collector leaves lying.
 */
const MEMORY_MAX = 1536 * MIB
/** Growth from the first half of a run, when every table has filled (after some 30 s), to the second. */
const GROWTH_MAX = 192 * MIB

const LEASE_MS = 2_000
/** Abusers that register again all the time end their own leases: none would ever expire. */
const ROUND_PAUSE_MS = 20
const FLAGS = [
  '--chunk-tokens',
  '16',
  '--lease-ttl',
  `${LEASE_MS}ms`,
  '--sweep-interval',
  '50ms',
  '--mp-silent',
  '15s',
].concat(['--mp-grace', '15s', '--mp-clients', '64', '--sessions', '1024', '--log-level', 'error'])

const home = new EngineHome()
let engine: EngineProcess
let admin: { authorization: string }
beforeAll(async () => {
  engine = await home.start({ l1Size: '64MiB', flags: FLAGS })
  admin = { authorization: `Bearer ${await home.token('admin')}` }
})
afterAll(() => home.remove())

/** Bytes of the engine's memory that are not L1. */
function privateBytes(): number {
  const text = readFileSync(`/proc/${engine.addresses.pid}/status`, 'utf8')
  return Number(text.match(/^RssAnon:\s+(\d+) kB$/m)![1]) * 1024
}

async function statusOf(): Promise<{ mp: Record<string, number>; l1: Record<string, number> }> {
  return (await (await fetch(`${engine.httpUrl}/status`, { headers: admin })).json()) as never
}

/** What an operator does whose workers die all the time. */
async function releaseQuarantine(): Promise<void> {
  const headers = { ...admin, 'content-type': 'application/json' }
  const answer = await fetch(`${engine.httpUrl}/v1/quarantine/release`, { method: 'POST', body: '{}', headers })
  expect(answer.status).toBe(200)
}

it(
  `an engine neither falls nor grows under ${SECONDS} s of abuse, and serves others (seed ${SEED})`,
  async () => {
    const good = new GoodClient(engine.addresses.mp!, LEASE_MS)
    const fuzzer = new MpFuzzer(engine.addresses.mp!, SEED)
    const samples: number[] = []
    const startMs = performance.now()
    let isOver = false
    const repeat = async (pauseMs: number, work: () => Promise<void> | void) => {
      while (!isOver) {
        await work()
        await new Promise((resolve) => setTimeout(resolve, pauseMs))
      }
    }
    try {
      await good.start()
      await Promise.all([
        repeat(ROUND_PAUSE_MS, async () => {
          await fuzzer.round()
          isOver = performance.now() - startMs > SECONDS * 1000
        }),
        repeat(5, () => good.cycle()),
        repeat(500, releaseQuarantine),
        repeat(250, () => void samples.push(privateBytes())),
      ])
      fuzzer.close()
      await good.cycle()
      const { mp, l1 } = await statusOf()
      const { samples: series } = parseExposition(await (await fetch(engine.metricsUrl)).text())
      const total = (name: string) =>
        series.reduce((sum, one) => sum + (one.name === `cache_mp_${name}` ? one.value : 0), 0)
      const deep = {
        expiredLeases: total('leases_expired_total'),
        writtenChunks: total('l1_write_chunks_total'),
        lookups: total('lookups_total'),
      }
      const half = Math.floor(samples.length / 2)
      const memory = {
        first: Math.round(samples[0]! / MIB),
        firstHalfMost: Math.round(Math.max(...samples.slice(0, half)) / MIB),
        most: Math.round(Math.max(...samples) / MIB),
        last: Math.round(samples.at(-1)! / MIB),
      }
      console.log(
        JSON.stringify({
          seed: SEED,
          seconds: SECONDS,
          memoryMiB: memory,
          sent: fuzzer.counts,
          good: good.counts,
          deep,
          mp,
          l1,
        }),
      )
      expect(engine.printed).not.toMatch(/a bug while|internal error|"level":(50|60)/)
      expect(good.counts.cycles).toBeGreaterThan(SECONDS)
      expect(good.counts.stored).toBeGreaterThan(good.counts.cycles / 2)
      for (const count of ['malformed', 'badPayloads', 'unknownOps', 'refused'] as const)
        expect(mp[count], count).toBeGreaterThan(0)
      for (const [what, count] of Object.entries(deep)) expect(count, what).toBeGreaterThan(0)
      expect(deep.writtenChunks).toBeGreaterThan(4 * good.counts.stored) // those of abusers too
      expect(mp.clients).toBeLessThanOrEqual(64)
      expect(mp.sessions).toBeLessThanOrEqual(1024)
      expect(Math.max(...samples)).toBeLessThan(MEMORY_MAX)
      expect(Math.max(...samples.slice(half)) - Math.max(...samples.slice(0, half))).toBeLessThan(GROWTH_MAX)
      await until('what the abusers held is free', async () => {
        await releaseQuarantine()
        const { mp: now, l1: tier } = await statusOf()
        return now.heldBytes === 0 && tier.quarantinedBytes === 0 ? true : undefined
      })
    } finally {
      fuzzer.close()
      good.close()
    }
  },
  (SECONDS + 60) * 1000,
)
