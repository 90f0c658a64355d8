import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, expect, it } from 'vitest'
import { EngineHome } from '../support/engine-process.ts'
import { pythonEnvironment } from './python-environment.ts'

// Schemathesis reads the OpenAPI document of a running engine and sends what it describes, and what it does not: every
// operation, an admin's token, a fixed seed, a bounded time.

const SEED = 20_261_121
const SECONDS = 60
const EXAMPLES = 20

const home = new EngineHome()
afterAll(() => home.remove())

it(`no route answers with a server error or an undocumented status (seed ${SEED})`, async (context) => {
  const environment = pythonEnvironment('requirements-fuzz.txt')
  if ('missing' in environment) {
    if (process.env.CI === 'true') throw new Error(environment.missing)
    return context.skip(environment.missing)
  }
  const engine = await home.start()
  const token = await home.token('admin')
  const { stdout } = await promisify(execFile)(
    environment.python,
    [
      ...['-m', 'schemathesis.cli', 'run', `${engine.httpUrl}/openapi.json`],
      ...['--header', `Authorization: Bearer ${token}`, '--no-color', '--output-truncate', 'true'],
      ...['--checks', 'not_a_server_error,status_code_conformance', '--phases', 'examples,coverage,fuzzing'],
      ...['--seed', `${SEED}`, '--max-examples', `${EXAMPLES}`, '--max-time', `${SECONDS}`, '--warnings', 'off'],
    ],
    { cwd: home.folder, timeout: (SECONDS + 60) * 1000, maxBuffer: 2 ** 26, env: { PATH: process.env.PATH } },
  ).catch((error: { stdout?: string; stderr?: string }) => {
    const lines = `${error.stdout ?? ''}${error.stderr ?? ''}`.split('\n').map((line) => line.slice(0, 300))
    throw new Error(lines.slice(-80).join('\n'))
  })
  expect(stdout).toContain('Schemathesis')
  expect((await fetch(`${engine.httpUrl}/healthz`)).status).toBe(200)
  expect(engine.stderr).not.toContain('"level":50')
}, 300_000)
