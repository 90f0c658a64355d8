import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it, type TestContext } from 'vitest'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { type PythonEnvironment, pythonEnvironment } from './python-environment.ts'

// mimic.py plays a scheduler and its workers against an engine: another language, another ZeroMQ, another MessagePack,
// and bytes that really go through shared memory.

const MIMIC = join(REPOSITORY, 'test/compat/mimic.py')
const run = promisify(execFile)
const home = new EngineHome()
let environment: PythonEnvironment
let engine: EngineProcess

beforeAll(async () => {
  environment = pythonEnvironment('requirements.txt')
  if ('missing' in environment && process.env.CI === 'true') throw new Error(environment.missing)
  if ('python' in environment) engine = await home.start()
}, 300_000)
afterAll(() => home.remove())

/** Runs one scenario of mimic.py. @returns what it printed. */
async function mimic(context: TestContext, scenario: string): Promise<unknown> {
  if ('missing' in environment) return context.skip(environment.missing)
  const { stdout } = await run(environment.python, [MIMIC, `tcp://${engine.addresses.mp}`, scenario], {
    timeout: 50_000,
  })
  return JSON.parse(stdout)
}

it('greets a client', async (context) => {
  expect(await mimic(context, 'greet')).toEqual({ chunk_tokens: 256 })
})

for (const version of ['0.4.7', '0.5.2', '0.5.6', '0.5.7']) {
  it(`gives a worker that speaks like ${version} its bytes back`, async (context) => {
    expect(await mimic(context, `cycle-${version}`)).toEqual({ chunks: 6 })
  })
}

it('finds a chunk only when every rank has stored it', async (context) => {
  expect(await mimic(context, 'ranks')).toEqual({ world: 2 })
})

it('lets several workers read what one of them stored', async (context) => {
  expect(await mimic(context, 'mla')).toEqual({ readers: 2 })
})

it('keeps salts apart', async (context) => {
  expect(await mimic(context, 'salts')).toEqual({ salts: 2 })
})

for (const [what, scenario] of [
  ['takes a worker that registers twice', 'restarted-worker'],
  ['says no to workers it does not know, and never acknowledges device handles', 'strangers'],
  ['takes block reports', 'blocks'],
  ['answers a clear and does not obey it', 'clear'],
] as const) {
  it(what, async (context) => {
    expect(await mimic(context, scenario)).toEqual({})
  })
}

it('keeps its name in /dev/shm while workers come and go', (context) => {
  if ('missing' in environment) context.skip(environment.missing)
  expect(existsSync(home.segmentPath)).toBe(true)
})
