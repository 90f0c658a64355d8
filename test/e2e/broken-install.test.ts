import { pathToFileURL } from 'node:url'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { EngineHome, runCommand } from '../support/engine-process.ts'
import { REPOSITORY } from '../support/source-tree.ts'

let home: EngineHome

beforeEach(() => {
  home = new EngineHome()
})
afterEach(() => home.remove())

const PRELOAD = pathToFileURL(`${REPOSITORY}/test/support/programs/missing-in-threads.ts`).href

it.each([
  ['an io worker', 'koffi'],
  ['the hashing thread', 'hash-wasm'],
  ['the service thread', 'fastify'],
  ['a thread of the activity log', 'node:sqlite'],
])(
  'names what %s cannot load when the engine does not start: %s',
  async (thread, missing) => {
    const flags = ['--data-dir', home.dataDir, '--http-port', '0', '--mp-port', '0', '--prometheus-port', '0']
    const argv = ['serve', ...flags, '--l1-size', '16MiB', '--json']
    const env = { NODE_OPTIONS: `--import ${PRELOAD}`, MISSING_IN_THREADS: missing }
    const { code, stdout, stderr } = await runCommand(argv, 120_000, env)
    expect(stderr).toMatch(new RegExp(`^kvtier: ${thread} ended: .*Cannot find package '${missing}'$`, 'm'))
    expect(stderr).not.toContain('internal error')
    expect(JSON.parse(stdout)).toMatchObject({ error: { code: 'THREAD_ENDED' } })
    expect(code).toBe(1)
  },
  240_000,
)
