import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { EngineHome, type EngineProcess } from '../support/engine-process.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { pythonEnvironment } from './python-environment.ts'

// vLLM itself, on the CPU, with its own connector and a tiny model of random weights (vllm_generate.py).

const SCRIPT = join(REPOSITORY, 'test/compat/vllm_generate.py')
/** Of each prompt: tokens that fill whole chunks, all of them shared. */
const SHARED_TOKENS = 1024
const run = promisify(execFile)
const home = new EngineHome()
let python: string
let engine: EngineProcess

interface Generated {
  readonly requests: readonly { readonly tokens: readonly number[]; readonly cached: number }[]
  readonly counters: Readonly<Record<string, number>>
}

beforeAll(async () => {
  const environment = pythonEnvironment('requirements-vllm.txt', { resolves: false })
  if ('missing' in environment) throw new Error(environment.missing)
  python = environment.python
  engine = await home.start({ l1Size: '128MiB' })
})
afterAll(() => home.remove())

async function generate(address?: string): Promise<Generated> {
  const model = join(home.folder, 'model')
  const { stdout } = await run(python, [SCRIPT, model, ...(address === undefined ? [] : [address])], {
    maxBuffer: 2 ** 26,
    timeout: 170_000,
  })
  return JSON.parse(stdout.trim().split('\n').at(-1)!) as Generated
}

it('generates the same tokens from cached prefixes as without the cache, and counts external hits', async () => {
  const plain = await generate()
  expect(plain.requests.map(({ cached }) => cached)).toEqual([0, 0, 0])
  const served = await generate(engine.addresses.mp)
  expect(served.requests.map(({ cached }) => cached)).toEqual([0, SHARED_TOKENS, SHARED_TOKENS])
  expect(served.counters['vllm:external_prefix_cache_hits']).toBe(2 * SHARED_TOKENS)
  const again = await generate(engine.addresses.mp)
  expect(again.requests.map(({ cached }) => cached)).toEqual([SHARED_TOKENS, SHARED_TOKENS, SHARED_TOKENS])
  for (const { requests } of [served, again]) {
    expect(requests.map(({ tokens }) => tokens)).toEqual(plain.requests.map(({ tokens }) => tokens))
  }
}, 600_000)
