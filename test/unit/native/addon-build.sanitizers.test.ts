import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { afterAll, expect, it, type TestContext } from 'vitest'
import { buildAddon } from '../../../src/native/addon-build.ts'
import { addonSources } from '../../../src/native/addon-files.ts'
import { REPOSITORY } from '../../support/source-tree.ts'
import { buildLibrary } from '../../support/stand-in-driver.ts'

const TIMEOUT_MS = 300_000
const FLAGS = ['-g', '-O1', '-fsanitize=address,undefined', '-fno-sanitize=vptr', '-fno-sanitize-recover=all']
/** An addon whose functions read the byte behind their first argument. */
const ONE_TOO_MANY = `#include "arguments.h"
static napi_value wrong(napi_env env, napi_callback_info info) {
  kvtier::Arguments call(env, info);
  kvtier::Bytes bytes = call.bytes(0);
  return call.ok() ? kvtier::number(env, bytes.data[bytes.length]) : nullptr;
}
NAPI_MODULE_INIT() {
  for (const char* name : (const char*[]){"crc32", "hashChunks", "readWords", "copyRanges"}) {
    kvtier::define(env, exports, name, wrong);
  }
  return exports;
}
`
const folder = mkdtempSync(join(tmpdir(), 'kvtier-sanitizers-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** A library of g++. Where it is missing the test is skipped, and says so; in CI it fails. */
function libraryOf(context: TestContext, name: string): string {
  const { stdout } = spawnSync('g++', [`-print-file-name=${name}`], { encoding: 'utf8' })
  const path = (stdout ?? '').trim()
  if (isAbsolute(path) && existsSync(path)) return path
  const reason = `g++ has no ${name} here`
  if (process.env.CI === 'true') throw new Error(reason)
  context.skip(reason)
  throw new Error('unreachable')
}

/** The addon of a repository with sanitizers in it. */
async function sanitized(root: string): Promise<string> {
  const made = await buildAddon({
    root,
    compilers: ['g++'],
    flags: FLAGS,
    folder: join(folder, 'build'),
    env: process.env,
  })
  if ('reason' in made) throw new Error(made.reason)
  return made.path
}

function work(library: string, binary: string, seed: number) {
  const program = join(REPOSITORY, 'test/support/programs/addon-workout.ts')
  return runSanitized(library, [program, binary, String(seed), '5000'])
}

function runSanitized(library: string, argv: readonly string[]) {
  return spawnSync(process.execPath, argv, {
    // What V8 and Node do not free at their end is no affair of the addon.
    env: { ...process.env, LD_PRELOAD: library, ASAN_OPTIONS: 'detect_leaks=0:abort_on_error=0', NODE_OPTIONS: '' },
    encoding: 'utf8',
    timeout: TIMEOUT_MS,
  })
}

it('reads and writes no byte beside its arguments, whatever they are (seeds 1, 2)', {
  timeout: TIMEOUT_MS,
}, async (context) => {
  const library = libraryOf(context, 'libasan.so')
  const binary = await sanitized(REPOSITORY)
  for (const seed of [1, 2]) {
    const { stdout, stderr, status } = work(library, binary, seed)
    expect({ stdout, stderr, status }).toEqual({ stdout: 'done\n', stderr: '', status: 0 })
  }
})

it('opens, uses and closes CUDA devices as cleanly, in threads that end meanwhile too (seeds 1, 2)', {
  timeout: TIMEOUT_MS,
}, async (context) => {
  const sanitizer = libraryOf(context, 'libasan.so')
  const binary = await sanitized(REPOSITORY)
  const driver = await buildLibrary()
  const program = join(REPOSITORY, 'test/support/programs/cuda-workout.ts')
  for (const seed of ['1', '2']) {
    const { stdout, stderr, status } = runSanitized(sanitizer, [program, binary, driver, seed, '150'])
    expect({ stdout, stderr, status }).toEqual({ stdout: 'done\n', stderr: '', status: 0 })
  }
})

it('a function that reads one byte too many is found out', { timeout: TIMEOUT_MS }, async (context) => {
  const library = libraryOf(context, 'libasan.so')
  const root = join(folder, 'wrong')
  mkdirSync(addonSources(root), { recursive: true })
  cpSync(join(addonSources(REPOSITORY), 'arguments.h'), join(addonSources(root), 'arguments.h'))
  writeFileSync(join(addonSources(root), 'module.cc'), ONE_TOO_MANY)
  const { stderr, status } = work(library, await sanitized(root), 1)
  expect(stderr).toContain('AddressSanitizer: heap-buffer-overflow')
  expect(status).not.toBe(0)
})

/** Runs a program of ThreadSanitizer, which needs addresses that some kernels deal out only when they are told to. */
function runThreads(program: string, args: readonly string[]) {
  const options = { encoding: 'utf8', timeout: TIMEOUT_MS } as const
  const plain = spawnSync(program, args, options)
  if (!plain.stderr.includes('unexpected memory mapping')) return plain
  return spawnSync('setarch', ['--addr-no-randomize', program, ...args], options)
}

it('threads that copy never meet on a byte, and one that did would be found out', {
  timeout: TIMEOUT_MS,
}, (context) => {
  libraryOf(context, 'libtsan.so')
  const program = join(folder, 'copy-workout')
  const sources = [
    join(REPOSITORY, 'test/support/native/copy-workout.cc'),
    join(addonSources(REPOSITORY), 'copy-ranges.cc'),
  ]
  const flags = ['-std=c++17', '-O2', '-g', '-fsanitize=thread', '-pthread']
  const build = spawnSync('g++', [...flags, ...sources, '-o', program], { encoding: 'utf8', timeout: TIMEOUT_MS })
  expect(build.stderr).toBe('')
  const right = runThreads(program, [])
  expect([right.stdout, right.stderr, right.status]).toEqual(['done\n', '', 0])
  const wrong = runThreads(program, ['one target for all'])
  expect(wrong.stderr).toContain('ThreadSanitizer: data race')
  expect(wrong.status).not.toBe(0)
})
