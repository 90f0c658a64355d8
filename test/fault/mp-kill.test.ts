import { afterEach, expect, it } from 'vitest'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { EngineDied, KillDrill } from '../support/kill-drill.ts'
import { random } from '../support/random.ts'

// KVTIER_KILL_SEED replays a run, as far as time allows; KVTIER_KILL_SECONDS makes it longer. Every run prints its seed.
const SEED = Number(process.env.KVTIER_KILL_SEED ?? Date.now() % 1_000_000)
const SECONDS = Number(process.env.KVTIER_KILL_SECONDS ?? 40)
const STEPS_OF_AN_ENGINE = 150

const FLAGS = [
  '--chunk-tokens',
  '16',
  '--l1-extent-size',
  '48KiB',
  '--lease-ttl',
  '400ms',
  '--sweep-interval',
  '20ms',
].concat(['--l2', 'none', '--mp-silent', '1h', '--mp-held-ratio', '0.8', '--log-level', 'warn'])
const INDEX = [
  '--l1-index-chunks',
  '512',
  '--l1-index-shards',
  '512',
  '--l1-leases',
  '256',
  '--l1-lease-entries',
  '2048',
]
const L1 = '1MiB'
const PROGRAM = 'test/support/programs/serve-until-store.ts'

let home: EngineHome
afterEach(() => home.remove())

/** After how many stores to its tables the engine of this round kills itself: one after the other, or any number. */
function fuseOf(round: number, next: (limit: number) => number): number {
  if (round % 3 === 0) return round / 3
  return next(2) === 0 ? next(400) : next(8_000)
}

it(
  `an engine killed at any store to its tables gives out no wrong byte ever after (seed ${SEED}, ${SECONDS} s)`,
  async () => {
    home = new EngineHome()
    const next = random(SEED)
    const startMs = performance.now()
    const start = (stores: number, mpPort = 0): Promise<EngineProcess> => {
      const flags = [...FLAGS, ...INDEX, '--die-after', String(stores)]
      return home.start({ main: PROGRAM, l1Size: L1, mpPort, flags })
    }
    let engine = await start(Number.MAX_SAFE_INTEGER)
    const mpPort = Number(engine.addresses.mp!.split(':').at(-1))
    const drill = new KillDrill(engine.addresses.mp!, next)
    let kills = 0
    let warmStarts = 0
    try {
      await drill.start(engine)
      for (let step = 0; step < STEPS_OF_AN_ENGINE; step += 1) await drill.step()
      await engine.stop('SIGKILL')
      for (let round = 0; performance.now() - startMs < SECONDS * 1000; round += 1) {
        drill.whileDown()
        const stores = fuseOf(round, next)
        engine = await start(stores, mpPort)
        drill.follow(engine)
        if (!engine.printed.includes('starts cold')) warmStarts += 1
        try {
          if (next(2) === 0) await drill.audit(true)
          for (let step = 0; step < STEPS_OF_AN_ENGINE; step += 1) await drill.step()
          await drill.audit(false)
        } catch (error) {
          const where = { seed: SEED, round, stores, kills }
          if (!(error instanceof EngineDied)) throw new Error(JSON.stringify(where), { cause: error })
        }
        await engine.stop('SIGKILL') // if it did not kill itself
        kills += 1
      }
      drill.whileDown()
      engine = await home.start({ l1Size: L1, mpPort, flags: [...FLAGS, ...INDEX] })
      drill.follow(engine)
      await drill.audit(true)
      for (let step = 0; step < STEPS_OF_AN_ENGINE; step += 1) await drill.step()
      await drill.audit(false)
      console.log(JSON.stringify({ seed: SEED, seconds: SECONDS, kills, warmStarts, ...drill.counts }))
      expect(warmStarts).toBe(kills)
      expect(drill.counts.auditedChunks).toBeGreaterThan(0)
      expect(drill.counts.hitAfterRestart).toBeGreaterThan(0)
    } finally {
      drill.close()
    }
  },
  (SECONDS + 120) * 1000,
)
