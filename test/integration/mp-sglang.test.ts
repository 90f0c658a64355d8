import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import {
  CHUNK,
  closeSound,
  contextOf,
  found,
  keyOf,
  MP_OPTIONS,
  type Mp,
  promptOf,
  startMp,
  storePrompt,
} from '../support/mp.ts'
import { REPOSITORY } from '../support/source-tree.ts'

// What SGLang's connector does unlike vLLM's: one client for a scheduler and its worker, one registration for good,
// stores without a lookup before them, and no question about experiments.

let mp: Mp
afterEach(() => closeSound(mp))

const WORKER = 2n ** 62n + 9n
const UNIFIED = { isMla: true, slots: CHUNK } // one plane for each tensor: keys of all layers, then values

/** One rank: a scheduler and a worker, on one connection. */
async function server() {
  mp = await startMp()
  const client = mp.connect()
  await client.chunkTokens()
  await client.register(contextOf(WORKER, UNIFIED))
  return client
}

const asked = (name: number, chunks: number) => keyOf(promptOf(name, chunks), { requestId: `request ${name}` })

it('forgets a request that was stored without a lookup when its client ends it', async () => {
  const client = await server()
  await storePrompt(mp, client, asked(1, 2), WORKER, 1)
  await storePrompt(mp, client, asked(2, 2), WORKER, 2)
  expect(mp.server.status()).toMatchObject({ sessions: 2 })
  await client.endSession('request 1')
  expect(mp.server.status()).toMatchObject({ sessions: 1 })
  await mp.connect().endSession('request 2')
  expect(mp.server.status(), 'of another client').toMatchObject({ sessions: 1 })
  await client.endSession('request 2')
  expect(mp.server.status()).toMatchObject({ sessions: 0 })
})

it('forgets a request that was stored first and looked up later', async () => {
  const client = await server()
  await storePrompt(mp, client, asked(1, 2), WORKER, 1)
  expect(await found(client, asked(1, 2))).toBe(2)
  await client.endSession('request 1')
  expect(mp.server.status()).toMatchObject({ sessions: 0 })
  expect(mp.engine.l1.openLeases).toBe(0)
  await storePrompt(mp, client, asked(1, 2), WORKER, 1)
  await client.endSession('request 1')
  expect(mp.server.status()).toMatchObject({ sessions: 0 })
})

it.each([
  ['a heartbeat', (client: Awaited<ReturnType<typeof server>>) => client.ping(WORKER)],
  [
    'a store',
    async (client: Awaited<ReturnType<typeof server>>) =>
      (await client.prepareStore(asked(2, 1), WORKER)).slots.length === 1,
  ],
])('knows a worker again that was silent for too long and held nothing, by %s', async (_what, act) => {
  const client = await server()
  await storePrompt(mp, client, asked(1, 2), WORKER, 1)
  mp.clock.advance(3_700_000)
  expect(mp.server.status()).toMatchObject({ instances: 0, reapedInstances: 1 })
  expect(await act(client)).toBe(true)
  expect(mp.server.status()).toMatchObject({ instances: 1 })
  await client.unregister(WORKER)
  expect(await client.ping(WORKER)).toBe(false)
})

it('knows it again too once its late commit has ended the last thing that it held', async () => {
  const client = await server()
  expect((await client.prepareStore(asked(1, 2), WORKER)).slots).toHaveLength(2)
  await client.ping(WORKER)
  mp.clock.advance(200_000)
  expect((await client.prepareStore(asked(2, 2), WORKER)).slots).toHaveLength(0)
  expect(await client.commitStore(asked(1, 2), WORKER)).toBe(false)
  expect(await storePrompt(mp, client, asked(2, 2), WORKER, 2)).toEqual([0, 1])
  expect(await found(client, asked(2, 2))).toBe(2)
  await client.endSession('request 2')
})

it('leaves a silent worker unknown when it could not register now', async () => {
  const client = await server()
  mp.clock.advance(3_700_000)
  const others = mp.connect()
  for (let id = 1n; id <= MP_OPTIONS.clientsMax; id += 1n) await others.register(contextOf(id, UNIFIED))
  expect(await client.ping(WORKER)).toBe(false)
  expect((await client.prepareStore(asked(1, 1), WORKER)).slots).toHaveLength(0)
})

it('tells a worker at once why it is refused, by what it says when it registers', async () => {
  await server()
  const other = mp.connect()
  await other.chunkTokens()
  await expect(other.register(contextOf(2n, { ...UNIFIED, layers: 2 }))).rejects.toMatchObject({ code: 'FORBIDDEN' })
  expect(mp.lines).toEqual([expect.stringContaining('use those, or another model name')])
})

it('tells a worker with device handles at once which setting to change', async () => {
  const recording = join(REPOSITORY, 'test/golden/mp/lmcache-0.5.6-sglang.json')
  const { exchanges } = JSON.parse(readFileSync(recording, 'utf8')) as { exchanges: { op: string; frames: string[] }[] }
  const [, , ...payload] = exchanges.find(({ op }) => op === 'register_kv_cache')!.frames
  mp = await startMp()
  const worker = mp.connect()
  await worker.chunkTokens()
  await expect(worker.request(1, ...payload.map((frame) => Buffer.from(frame, 'hex')))).rejects.toThrow('engine_driven')
  expect(mp.lines).toEqual([expect.stringContaining('set lmcache.mp.mp_transfer_mode to engine_driven')])
})
