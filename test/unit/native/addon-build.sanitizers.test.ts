import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it, type TestContext } from 'vitest'
import { addonSources } from '../../../src/native/addon-files.ts'
import {
  buildSanitized,
  libraryOf,
  runPreloaded,
  runSanitized,
  runThreads,
  SANITIZED_TIMEOUT_MS,
} from '../../support/sanitizers.ts'
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
/** An addon that allocates 77 bytes and forgets them. */
const LEAK = `#include "arguments.h"
namespace kvtier {
__attribute__((noinline)) napi_value forget(napi_env, napi_callback_info) {
  static unsigned char* volatile last;
  last = new unsigned char[77];
  last = nullptr;
  return nullptr;
}
}
NAPI_MODULE_INIT() {
  kvtier::define(env, exports, "leak", kvtier::forget);
  return exports;
}
`
const folder = mkdtempSync(join(tmpdir(), 'kvtier-sanitizers-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** A repository whose addon is one file. */
function wrongRepository(name: string, source: string): string {
  const root = join(folder, name)
  mkdirSync(addonSources(root), { recursive: true })
  cpSync(join(addonSources(REPOSITORY), 'arguments.h'), join(addonSources(root), 'arguments.h'))
  writeFileSync(join(addonSources(root), 'module.cc'), source)
  return root
}

/** The addon of a repository with sanitizers in it. */
function sanitized(root: string): Promise<string> {
  return buildSanitized({ root, flags: FLAGS, folder: join(folder, root === REPOSITORY ? 'build' : 'wrong-build') })
}

/** Runs a program and finds what it left allocated, by calls in the addon. */
function leaksOf(context: TestContext, library: string, argv: readonly string[]) {
  const options = { ASAN_OPTIONS: 'detect_leaks=1:abort_on_error=0', LSAN_OPTIONS: 'exitcode=0' }
  const { stdout, stderr, status } = runPreloaded(library, argv, options)
  const refusal = stderr.split('\n').find((line) => line.includes('LeakSanitizer has encountered a fatal error'))
  if (refusal !== undefined && process.env.CI !== 'true') context.skip(refusal)
  const leaks = stderr.split('\n\n').filter((leak) => leak.includes('leak of') && leak.includes('kvtier::'))
  return { stdout, status, leaks, refusal }
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
  const { stderr, status } = work(library, await sanitized(wrongRepository('wrong', ONE_TOO_MANY)), 1)
  expect(stderr).toContain('AddressSanitizer: heap-buffer-overflow')
  expect(status).not.toBe(0)
})

it('leaves nothing of a device allocated, however its life ends (seed 1)', {
  timeout: SANITIZED_TIMEOUT_MS,
}, async (context) => {
  const sanitizer = libraryOf(context, 'libasan.so')
  const binary = await sanitized(REPOSITORY)
  const program = join(REPOSITORY, 'test/support/programs/cuda-life.ts')
  // One thread: host memory of a lost context that another device holds too is kept for good.
  const found = leaksOf(context, sanitizer, [program, binary, await buildLibrary(), '1', '60', '1'])
  expect(found).toEqual({ stdout: '60 rounds, with fences\n', status: 0, leaks: [], refusal: undefined })
})

it('what the addon leaves allocated is found out', { timeout: SANITIZED_TIMEOUT_MS }, async (context) => {
  const sanitizer = libraryOf(context, 'libasan.so')
  const binary = await sanitized(wrongRepository('leak', LEAK))
  const call = `require(${JSON.stringify(binary)}).leak()`
  expect(leaksOf(context, sanitizer, ['-e', call]).leaks).toEqual([expect.stringContaining('leak of 77 byte(s)')])
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
