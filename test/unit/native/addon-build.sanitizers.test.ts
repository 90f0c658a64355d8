import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { buildAddon } from '../../../src/native/addon-build.ts'
import { addonSources } from '../../../src/native/addon-files.ts'
import { libraryOf, runSanitized, runThreads, SANITIZED_TIMEOUT_MS } from '../../support/sanitizers.ts'
import { REPOSITORY } from '../../support/source-tree.ts'
import { buildLibrary } from '../../support/stand-in-driver.ts'

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

it('reads and writes no byte beside its arguments, whatever they are (seeds 1, 2)', {
  timeout: SANITIZED_TIMEOUT_MS,
}, async (context) => {
  const library = libraryOf(context, 'libasan.so')
  const binary = await sanitized(REPOSITORY)
  for (const seed of [1, 2]) {
    const { stdout, stderr, status } = work(library, binary, seed)
    expect({ stdout, stderr, status }).toEqual({ stdout: 'done\n', stderr: '', status: 0 })
  }
})

it('opens, uses and closes CUDA devices as cleanly, in threads that end meanwhile too (seeds 1, 2)', {
  timeout: SANITIZED_TIMEOUT_MS,
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

it('moves files as cleanly, in threads that end while moves are under way (seeds 1, 2)', {
  timeout: SANITIZED_TIMEOUT_MS,
}, async (context) => {
  const library = libraryOf(context, 'libasan.so')
  const binary = await sanitized(REPOSITORY)
  const program = join(REPOSITORY, 'test/support/programs/file-workout.ts')
  for (const seed of ['1', '2']) {
    const { stdout, stderr, status } = runSanitized(library, ['--expose-gc', program, binary, seed, '6'])
    expect({ stdout, stderr, status }).toEqual({ stdout: 'done\n', stderr: '', status: 0 })
  }
})

it('a function that reads one byte too many is found out', { timeout: SANITIZED_TIMEOUT_MS }, async (context) => {
  const library = libraryOf(context, 'libasan.so')
  const root = join(folder, 'wrong')
  mkdirSync(addonSources(root), { recursive: true })
  cpSync(join(addonSources(REPOSITORY), 'arguments.h'), join(addonSources(root), 'arguments.h'))
  writeFileSync(join(addonSources(root), 'module.cc'), ONE_TOO_MANY)
  const { stderr, status } = work(library, await sanitized(root), 1)
  expect(stderr).toContain('AddressSanitizer: heap-buffer-overflow')
  expect(status).not.toBe(0)
})

it('threads that copy never meet on a byte, and one that did would be found out', {
  timeout: SANITIZED_TIMEOUT_MS,
}, (context) => {
  libraryOf(context, 'libtsan.so')
  const program = join(folder, 'copy-workout')
  const sources = [
    join(REPOSITORY, 'test/support/native/copy-workout.cc'),
    join(addonSources(REPOSITORY), 'copy-ranges.cc'),
  ]
  const flags = ['-std=c++17', '-O2', '-g', '-fsanitize=thread', '-pthread']
  const build = spawnSync('g++', [...flags, ...sources, '-o', program], {
    encoding: 'utf8',
    timeout: SANITIZED_TIMEOUT_MS,
  })
  expect(build.stderr).toBe('')
  const right = runThreads(program, [])
  expect([right.stdout, right.stderr, right.status]).toEqual(['done\n', '', 0])
  const wrong = runThreads(program, ['one target for all'])
  expect(wrong.stderr).toContain('ThreadSanitizer: data race')
  expect(wrong.status).not.toBe(0)
})
