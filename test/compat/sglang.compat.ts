import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { EngineHome, type EngineProcess, type EngineProcessOptions } from '../support/engine-process.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { pythonEnvironment, requirementsFolder } from './python-environment.ts'

// SGLang's radix cache with lmcache's connector for it, both unmodified, on SGLang's own pools in CPU tensors
// (sglang_client.py). No model runs: SGLang's kernels for CPUs are not on the package index.

const SCRIPT = join(REPOSITORY, 'test/compat/sglang_client.py')
/** Of one chunk of 256 tokens of `sglang_server.py`: 6 planes of 32, or 3 of 64 with MLA, 2 bytes each. */
const CHUNK_BYTES = 256 * 6 * 32 * 2
/** SGLang's modules alone take ten seconds of a processor to load. */
const PATIENCE_MS = 600_000
const run = promisify(execFile)
vi.setConfig({ testTimeout: PATIENCE_MS })

interface Result {
  readonly scenario: string
}

let python: string
let packages: string
let home: EngineHome
let engine: EngineProcess

beforeAll(() => {
  const environment = pythonEnvironment('requirements-vllm.txt', { resolves: false })
  if ('missing' in environment) throw new Error(environment.missing)
  python = environment.python
  packages = requirementsFolder(python, 'requirements-sglang.txt')
})

/** SGLang takes long to start, so what can do so shares one process and one engine. */
describe('one server', () => {
  const shared = new EngineHome()
  const results = new Map<string, Result>()
  let printed: string
  let failure: unknown

  beforeAll(async () => {
    home = shared
    await start()
    const ran = await play('cycle,keys,steps,locks,refusals,store').catch((error: Error & { stdout?: string }) => {
      failure = error
      return resultsIn(error.stdout ?? '')
    })
    for (const result of ran) results.set(result.scenario, result)
    printed = engine.printed
  }, 900_000)
  afterAll(() => shared.remove())

  it.each([
    ['misses, stores, loads what was evicted, and hits in part', 'cycle', { pools: 6 }],
    ['keeps salts and extra keys apart', 'keys', { keys: 5 }],
    ['stores in steps, and what was never looked up', 'steps', {}],
    ['holds nothing for requests that ended, were aborted or flushed', 'locks', {}],
  ])('%s', (_what, scenario, expected) => {
    const result = results.get(scenario)
    if (result === undefined) throw failure
    expect(result).toMatchObject({ ...expected, versions: { sglang: '0.5.23', lmcache: '0.5.6' } })
  })

  it('says at its start what is not served', () => {
    expect(results.get('refusals')).toMatchObject({
      handles: expect.stringContaining('refused: set lmcache.mp.mp_transfer_mode to engine_driven'),
      groups: expect.stringContaining('does not support multiple KV transfer groups'),
      pages: expect.stringContaining('chunk size 256 must be a positive multiple'),
      layers: expect.stringContaining('refused: the log of the kvtier engine says why'),
    })
    expect(printed).toContain('use those, or another model name')
  })

  it('leaves what another process finds', async () => {
    expect(results.has('store')).toBe(true)
    await play('find')
  })
})

describe('an engine of its own', () => {
  beforeEach(() => {
    home = new EngineHome()
  })
  afterEach(() => home.remove())

  it('serves two ranks, and keeps one copy for both with MLA', async () => {
    await start()
    const meeting = join(home.folder, 'meeting')
    await Promise.all(['0', '1'].map((rank) => play('rank', rank, meeting)))
    const { tenants } = (await (await fetch(`${engine.httpUrl}/status`)).json()) as { tenants: object[] }
    expect(tenants).toEqual([
      { model: 'sglang/ranks-mha', salt: '', l1UsageBytes: 2 * 3 * CHUNK_BYTES },
      { model: 'sglang/ranks-mla', salt: '', l1UsageBytes: 3 * CHUNK_BYTES },
    ])
  })

  it.each(['SIGKILL', 'SIGTERM'] as const)('works on over %s, and finds all it had stored', async (signal) => {
    await start()
    await whileStopped('restart', signal, {})
  })

  it('goes on without a cache when the engine comes back with other memory, until it is restarted', async () => {
    await start()
    await whileStopped('cold', 'SIGTERM', { l1Size: '48MiB' })
  })

  it('has its cache back when its first request comes after the engine took it for dead', async () => {
    await start({ flags: ['--l2', 'none', '--mp-grace', '1s'] })
    await play('silent')
  })
})

async function start(options: Omit<EngineProcessOptions, 'dataDir'> = {}): Promise<void> {
  engine = await home.start({ flags: ['--l2', 'none'], ...options })
}

/** Runs scenarios to their end. */
async function play(scenarios: string, ...more: string[]): Promise<Result[]> {
  const { stdout } = await run(python, [...argumentsOf(scenarios), ...more], {
    env: environmentOf(),
    timeout: PATIENCE_MS,
  })
  return resultsIn(stdout)
}

function resultsIn(stdout: string): Result[] {
  return stdout
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Result)
}

/** Runs a scenario that waits once, in which time the engine is stopped and another one starts on its port. */
async function whileStopped(scenario: string, signal: 'SIGKILL' | 'SIGTERM', next: { l1Size?: string }): Promise<void> {
  const mpPort = Number(engine.addresses.mp!.split(':')[1])
  const httpPort = Number(engine.addresses.http!.split(':')[1])
  const client = spawn(python, argumentsOf(scenario), { env: environmentOf() })
  try {
    const lines = linesOf(client)
    expect(await lines.next()).toMatchObject({ value: 'stored' })
    await engine.stop(signal)
    await start({ mpPort, httpPort, ...next })
    client.stdin.end('\n')
    const printed = await lines.next()
    const [code] = await once(client, 'close')
    expect(code).toBe(0)
    expect(JSON.parse(printed.value as string)).toMatchObject({ versions: { sglang: '0.5.23' } })
  } finally {
    client.kill('SIGKILL')
  }
}

function argumentsOf(scenario: string): string[] {
  return [SCRIPT, `tcp://${engine.addresses.mp}`, engine.httpUrl, scenario]
}

function environmentOf(): NodeJS.ProcessEnv {
  return { ...process.env, PYTHONPATH: packages, PYTHONWARNINGS: 'ignore' }
}

function linesOf(client: ChildProcessWithoutNullStreams): AsyncIterator<string> {
  client.stderr.pipe(process.stderr)
  return createInterface({ input: client.stdout })[Symbol.asyncIterator]()
}
