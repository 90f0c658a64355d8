import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { packageFolder, pythonEnvironment } from './python-environment.ts'

// The real lmcache client, unmodified: the adapters that vLLM's connector uses, with CPU tensors (real_client.py).

const SCRIPT = join(REPOSITORY, 'test/compat/real_client.py')
/** One of each numbering that can be served, and the newest. */
const VERSIONS = ['0.4.7', '0.5.2', '0.5.4', '0.5.5', '0.5.6']
const run = promisify(execFile)
const home = new EngineHome()
let python: string
let engine: EngineProcess

beforeAll(async () => {
  const environment = pythonEnvironment('requirements-real.txt')
  if ('missing' in environment) throw new Error(environment.missing)
  python = environment.python
  engine = await home.start()
})
afterAll(() => home.remove())

describe.each(VERSIONS)('lmcache %s', (version) => {
  it.each([
    ['stores, finds and reads back every bit', 'cycle', { chunks: 3, world: 1 }],
    ['does so on two ranks, and finds nothing before both have stored', 'cycle-2', { chunks: 3, world: 2 }],
    ['finds and gets nothing of another salt', 'salts', {}],
    ['gives the one copy of an MLA model to both of its ranks', 'latent', { chunks: 2, readers: 2 }],
  ])('%s', async (_what, scenario, expected) => {
    const { stdout } = await run(python, argumentsOf(scenario), { env: environmentOf(version), timeout: 150_000 })
    const result = lastLine(stdout)
    expect(result).toMatchObject(expected)
    expect(result.versions).toMatchObject({ lmcache: version })
  })
})

describe.each(['0.4.7', '0.5.6'])('lmcache %s', (version) => {
  it.each(['SIGKILL', 'SIGTERM'] as const)(
    'works on over %s of the engine, and finds all it had stored',
    async (signal) => {
      const mpPort = Number(engine.addresses.mp!.split(':')[1])
      const client = spawn(python, argumentsOf('restart'), { env: environmentOf(version) })
      const lines = linesOf(client)
      expect(await lines.next()).toMatchObject({ value: 'stored' })
      await engine.stop(signal)
      engine = await home.start({ mpPort })
      client.stdin.end('\n')
      const printed = await lines.next()
      const [code] = await once(client, 'close')
      expect(code).toBe(0)
      expect(JSON.parse(printed.value as string)).toMatchObject({ found: 2 })
    },
  )
})

function argumentsOf(scenario: string): string[] {
  return [SCRIPT, `tcp://${engine.addresses.mp}`, scenario]
}

/** Older versions lie in folders of their own, before the installed one. */
function environmentOf(version: string): NodeJS.ProcessEnv {
  if (version === VERSIONS.at(-1)) return process.env
  return { ...process.env, PYTHONPATH: packageFolder(python, 'lmcache', version) }
}

function lastLine(text: string): Record<string, unknown> {
  return JSON.parse(text.trim().split('\n').at(-1)!)
}

function linesOf(client: ChildProcessWithoutNullStreams): AsyncIterator<string> {
  client.stderr.pipe(process.stderr)
  return createInterface({ input: client.stdout })[Symbol.asyncIterator]()
}
