import { readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { EngineHome, type EngineProcess, runCommand } from '../support/engine-process.ts'
import { HttpClient, promptOf, shardOf } from '../support/http-client.ts'
import { filesBelow } from '../support/l2-objects.ts'
import { until } from '../support/until.ts'

const MODEL = 'm'
const CHUNK_BYTES = 65_536
const CHUNK_TOKENS = 16
const FLAGS = ['--chunk-tokens', `${CHUNK_TOKENS}`, '--log-level', 'info']
const DISK = ['--l2', 'name=disk,type=filesystem,capacity=64MiB,durability=checksum']

let home: EngineHome
let engine: EngineProcess
let tokenFile: string
let client: HttpClient

beforeEach(async () => {
  home = new EngineHome()
  engine = await home.start({ flags: [...FLAGS, ...DISK] })
  const argv = ['token', 'create', '--data-dir', home.dataDir]
  const { stdout } = await runCommand([...argv, '--scope', 'read', '--scope', 'inference', '--scope', 'admin'])
  tokenFile = join(home.folder, 'token')
  writeFileSync(tokenFile, stdout, { mode: 0o600 })
  client = new HttpClient(engine, stdout.trim())
})

afterEach(() => home.remove())

/** Runs `kvtier l2 ...` on the engine. */
async function l2(...argv: string[]) {
  const result = await runCommand(['l2', ...argv, '--data-dir', home.dataDir, '--token-file', tokenFile])
  if (!argv.includes('--json')) for (const line of result.stdout.split('\n')) expect(line.length).toBeLessThan(101)
  return result
}

async function json(...argv: string[]) {
  const { code, stdout } = await l2(...argv, '--json')
  return { code, ...JSON.parse(stdout) }
}

/** Stores a prompt, and waits until L2 has it. @returns its tokens. */
async function storeChunks(count: number): Promise<number[]> {
  const tokens = promptOf(1, count * CHUNK_TOKENS)
  await client.register(MODEL, CHUNK_BYTES)
  await client.store({ model: MODEL }, tokens, CHUNK_BYTES)
  await until('the stores reach the disk', async () => ((await client.isL2Idle()) ? true : undefined))
  return tokens
}

it('an operator moves the objects to another adapter, and takes the old one away', async () => {
  const tokens = await storeChunks(20)
  const added = await l2('add', 'name=spare,type=filesystem,capacity=64MiB')
  expect([added.code, added.stdout]).toEqual([0, 'spare is active, and is kept for the next start.\n'])
  expect((await l2('add', 'name=spare,type=memory,capacity=1MiB')).code).toBe(1)

  const drained = await l2('drain', 'disk', '--evacuate-to', 'spare', '--deadline', '1m', '--wait')
  expect([drained.code, drained.stdout.split('\n')[0]]).toEqual([
    0,
    'disk is drained: kvtier l2 remove disk detaches it.',
  ])
  const removed = await l2('remove', 'disk')
  expect(removed.stdout).toContain('the next start attaches it again')
  const { adapters } = await json('list')
  expect(adapters).toMatchObject([{ name: 'spare', state: 'active', origin: 'runtime', objects: 20 }])

  await client.must('POST', '/v1/clear', { model: MODEL, tiers: ['l0', 'l1'] })
  const found = await client.lookup(MODEL, tokens)
  expect(found.tiers).toEqual({ l0: 0, l1: 0, l2: 20 * CHUNK_TOKENS })
  for (const hash of found.hashes) expect(await client.get(hash, { model: MODEL })).toEqual(shardOf(hash, CHUNK_BYTES))
  const metrics = await (await fetch(engine.metricsUrl)).text()
  expect(metrics).not.toMatch(/^cache_mp_l2_usage_bytes\{l2_name="disk"\}/m)
  expect(metrics).toMatch(/^cache_mp_l2_adapter_state\{l2_name="spare"\} 0$/m)
  expect(metrics).toMatch(/^cache_mp_l2_evacuated_chunks_total\{l2_name="disk"\} 20$/m)
  expect(metrics).toMatch(/^cache_mp_l2_adapters\{state="draining"\} 0$/m)

  const { stdout } = await runCommand(['status', '--data-dir', home.dataDir, '--token-file', tokenFile, '--json'])
  expect(JSON.parse(stdout).l2.adapters).toMatchObject([{ name: 'spare' }])
})

it('what was added comes back at the next start, in its own file that nobody else may read', async () => {
  expect((await l2('add', 'name=spare,type=filesystem,capacity=64MiB')).code).toBe(0)
  const kept = join(home.dataDir, 'l2-adapters.json')
  expect(statSync(kept).mode & 0o777).toBe(0o600)
  await engine.stop()
  engine = await home.start({ flags: [...FLAGS, ...DISK] })
  const { adapters } = await json('list')
  expect(adapters).toMatchObject([
    { name: 'disk', origin: 'config' },
    { name: 'spare', origin: 'runtime', type: 'filesystem' },
  ])
  expect((await l2('remove', 'spare', '--force')).code).toBe(0)
  expect(JSON.parse(readFileSync(kept, 'utf8')).adapters).toEqual([])
})

it('one that was added and cannot be opened again is shown as failed, and the engine starts', async () => {
  expect((await l2('add', `name=spare,type=filesystem,capacity=64MiB,path=${join(home.folder, 'spare')}`)).code).toBe(0)
  await engine.stop()
  renameSync(join(home.folder, 'spare'), join(home.folder, 'moved'))
  writeFileSync(join(home.folder, 'spare'), 'a file, not a directory')
  engine = await home.start({ flags: [...FLAGS, '--l2', 'none'] })
  const { adapters } = await json('list')
  expect(adapters).toMatchObject([{ name: 'spare', state: 'failed', last_error: expect.stringContaining('spare') }])
  const ready = await (await fetch(`${engine.httpUrl}/readyz`)).json()
  expect(ready).toMatchObject({ ready: true, l2: [{ name: 'spare', state: 'failed' }] })
  expect((await l2('remove', 'spare')).code).toBe(0)
})

it('a verification finds a flipped bit, quarantines the object, and says so by its exit code', async () => {
  await storeChunks(10)
  expect((await l2('verify', 'disk')).code).toBe(0)
  const [file] = filesBelow(join(home.dataDir, 'l2', 'disk', 'objects')).filter(({ bytes }) => bytes > CHUNK_BYTES)
  const bytes = readFileSync(file!.path)
  bytes[bytes.length - 1]! ^= 1
  writeFileSync(file!.path, bytes)
  const found = await l2('verify', 'disk')
  expect([found.code, found.stdout]).toEqual([1, expect.stringMatching(/corrupt, quarantined +1\n/)])
  const again = await json('verify', 'disk')
  expect(again).toMatchObject({ code: 0, kind: 'verify', state: 'done', ok: 9, corrupt: 0 })
  expect(filesBelow(join(home.dataDir, 'l2', 'disk', 'quarantine')).length).toBe(1)
  const { activities } = await client.must('GET', '/v1/activities?resourceType=adapter')
  expect(activities[0]).toMatchObject({ action: 'ACTIVITY_ACTION_ADAPTER_JOB_END', actorType: 'ACTOR_TYPE_SYSTEM' })
  expect(activities[1]).toMatchObject({
    action: 'ACTIVITY_ACTION_ADAPTER_JOB_START',
    actorType: 'ACTOR_TYPE_TOKEN',
    resourceId: 'disk',
    metadata: { kind: 'verify' },
  })
})

it('objects are listed and counted by model and salt', async () => {
  await storeChunks(5)
  const listed = await json('list', 'disk', '--limit', '3')
  expect(listed).toMatchObject({ code: 0, has_more: true })
  expect(listed.objects.length).toBe(3)
  expect((await l2('list', 'disk')).stdout).toContain('m')
  const stats = await json('stats', 'disk')
  expect(stats.spaces).toMatchObject([{ model: 'm', cache_salt: '', objects: 5, bytes: 5 * CHUNK_BYTES }])
  expect((await l2('stats', 'disk')).stdout).toMatch(/^m .* 5 +320 KiB$/m)
  expect((await l2('jobs')).stdout).toMatch(/^job-1 +stats +disk +done/m)
})

it('secrets of an adapter are in no answer, log line or activity', async () => {
  const secret = 'swordfish-123456'
  const file = join(home.folder, 'adapter.yaml')
  writeFileSync(file, `name: cache\ntype: redis\nurl: redis://user:${secret}@127.0.0.1:1\ncapacity: 1GiB\n`)
  const added = await l2('add', '--file', file)
  const listed = await l2('list', '--json')
  const { activities } = await client.must('GET', '/v1/activities')
  for (const text of [added.stdout, added.stderr, listed.stdout, JSON.stringify(activities), engine.printed]) {
    expect(text).not.toContain(secret)
  }
})

it('what is wrong ends with 2, what is refused with 1, and one line says why', async () => {
  const cases: [string[], number][] = [
    [['list', '--limit', '3'], 2],
    [['list', 'disk', '--limit', '0'], 2],
    [['list', 'nobody'], 1],
    [['verify', 'nobody'], 1],
    [['verify', 'disk', '--rate', 'fast'], 2],
    [['evacuate', 'disk'], 2],
    [['evacuate', 'disk', '--to', 'nobody'], 2],
    [['drain', 'disk', '--deadline', 'soon'], 2],
    [['drain', 'disk', '--rate', '1MiB'], 2],
    [['undrain', 'disk'], 1],
    [['remove', 'disk'], 1],
    [['cancel', 'job-7'], 1],
    [['add'], 2],
    [['add', '--file', 'missing.yaml'], 2],
    [['add', 'name=other,type=floppy'], 2],
  ]
  for (const [argv, code] of cases) {
    const result = await l2(...argv)
    expect([argv, result.code, result.stdout]).toEqual([argv, code, ''])
    expect(result.stderr).toMatch(/^kvtier: .+\n$/)
  }
})
