import { existsSync, readFileSync, statSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { MpClient } from '../../src/client/mp-client.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { SegmentFile } from '../../src/native/segment-file.ts'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { HttpClient } from '../support/http-client.ts'
import { TaggedWorker, type WorkerMemory } from '../support/isolated-models.ts'
import { SHARD_BYTES } from '../support/mp.ts'
import { random } from '../support/random.ts'
import { until } from '../support/until.ts'

// Each test starts engines one after the other, which takes long on a busy machine.
vi.setConfig({ testTimeout: 240_000 })

const MODELS = ['A', 'B', 'C']
const PART_BYTES = 2 ** 20
const COMMON = ['--chunk-tokens', '16', '--log-level', 'warn', '--l2', 'none']
const ISOLATED = ['--l1-isolation', 'model', '--l1-isolation-models', String(MODELS.length)]

let home: EngineHome
let engine: EngineProcess
let clients: MpClient[] = []
let files: SegmentFile[] = []

beforeEach(() => {
  home = new EngineHome()
})
afterEach(async () => {
  for (const one of [...clients, ...files]) one.close()
  clients = []
  files = []
  await home.remove()
})

async function start(flags: readonly string[]): Promise<void> {
  const mpPort = engine === undefined ? 0 : Number(engine.addresses.mp!.split(':').at(-1))
  engine = await home.start({ flags: [...COMMON, ...flags], l1Size: '3MiB', mpPort })
}

/** What the engine printed comes through a pipe, in its own time. */
async function logged(line: string): Promise<void> {
  await until(`the log says: ${line}`, () => engine.stderr.includes(line) || undefined)
}

function connect(): MpClient {
  const client = new MpClient(engine.addresses.mp!, { clock: new SystemClock(), timeoutMs: 20_000 })
  clients.push(client)
  return client
}

/** The segment, as a worker sees it for as long as it lives. */
function openFile(name: string): WorkerMemory {
  const file = SegmentFile.open(name)
  files.push(file)
  return {
    read: (offset, length) => file.read(offset, length),
    write: (offset, bytes) => file.write(offset, bytes),
    all: () => readFileSync(join('/dev/shm', name)),
  }
}

it('models have a segment each, over SIGKILL and a planned stop of the engine', async () => {
  await start(ISOLATED)
  const next = random(7)
  const workers = MODELS.map((model, at) => new TaggedWorker(model, at + 1, BigInt(at + 1), connect()))
  const inodes: number[] = []
  for (const [at, worker] of workers.entries()) {
    const { name, bytes } = await worker.register(openFile)
    expect(`/dev/shm/${name}`).toBe(`${home.segmentPath}.p${at}`)
    expect(bytes).toBe(PART_BYTES)
    inodes.push(statSync(`/dev/shm/${name}`).ino)
  }
  for (const [round, signal] of (['SIGKILL', 'SIGTERM', 'SIGKILL'] as const).entries()) {
    for (let step = 0; step < 40; step += 1) {
      const worker = workers[next(workers.length)]!
      await worker.store(next(40), 1 + next(60)) // a part has room for 1024 chunks
    }
    const before: number[] = []
    for (const worker of workers) before.push(await worker.retrieve(1000, 32), await worker.store(1000, 32))
    await workers[1]!.abandon(2000 + round, 16)
    await engine.stop(signal)
    await start(ISOLATED)
    for (const [at, worker] of workers.entries()) {
      worker.checkAll()
      expect(await worker.retrieve(1000, 32), worker.model).toBe(before[2 * at]! + before[2 * at + 1]!)
      expect(statSync(`${home.segmentPath}.p${at}`).ino).toBe(inodes[at])
    }
    const { l1 } = await new HttpClient(engine).must('GET', '/status')
    expect(l1.quarantinedBytes, 'what it has not finished').toBe((round + 1) * 16 * SHARD_BYTES)
  }
  const stranger = new TaggedWorker('D', 4, 99n, connect())
  await expect(stranger.register(openFile), 'the parts are known').rejects.toMatchObject({ code: 'FORBIDDEN' })
})

it('starts cold when isolation is switched, says why, and leaves no segment behind', async () => {
  await start([])
  const first = new TaggedWorker('A', 1, 1n, connect())
  expect((await first.register(openFile)).bytes).toBe(3 * PART_BYTES)
  expect(await first.store(1, 8)).toBe(8)
  await engine.stop('SIGKILL')

  await start(ISOLATED)
  await logged('L1 starts cold: --l1-isolation is model and was none')
  expect(existsSync(home.segmentPath)).toBe(false)
  const second = new TaggedWorker('A', 1, 2n, connect())
  await second.register(openFile)
  expect(await second.retrieve(1, 8)).toBe(0)
  await engine.stop('SIGKILL')

  await start(['--l1-isolation', 'model', '--l1-isolation-models', '2'])
  await logged('L1 starts cold: ')
  expect(existsSync(`${home.segmentPath}.p2`)).toBe(false)
  await engine.stop('SIGKILL')

  await start([])
  await logged('L1 starts cold: --l1-isolation is none and was model')
  expect(existsSync(`${home.segmentPath}.p0`)).toBe(false)
})

it('starts cold when a segment of one model was truncated or removed', async () => {
  await start(ISOLATED)
  const worker = new TaggedWorker('A', 1, 1n, connect())
  await worker.register(openFile)
  expect(await worker.store(1, 8)).toBe(8)
  await engine.stop('SIGKILL')
  truncateSync(`${home.segmentPath}.p1`, 4096)
  await start(ISOLATED)
  await logged('somebody truncated it')
  const again = new TaggedWorker('A', 1, 2n, connect())
  await again.register(openFile)
  expect(await again.retrieve(1, 8)).toBe(0)
  expect(await again.store(1, 8)).toBe(8)
})
