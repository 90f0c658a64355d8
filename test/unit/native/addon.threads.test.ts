import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { addonSources } from '../../../src/native/addon-files.ts'
import { buildSanitized, libraryOf, runPreloaded, SANITIZED_TIMEOUT_MS } from '../../support/sanitizers.ts'
import { REPOSITORY } from '../../support/source-tree.ts'
import { buildLibrary } from '../../support/stand-in-driver.ts'

const FLAGS = ['-g', '-O0', '-fsanitize=thread']
/** An addon whose own thread counts beside JavaScript's, without a lock. */
const COUNTS_TWICE = `#include <thread>
#include "arguments.h"
static long counted;
static std::thread other;
static napi_value start(napi_env, napi_callback_info) {
  other = std::thread([] { counted += 1; });
  return nullptr;
}
static napi_value count(napi_env, napi_callback_info) {
  counted += 1;
  return nullptr;
}
static napi_value end(napi_env, napi_callback_info) {
  other.join();
  return nullptr;
}
NAPI_MODULE_INIT() {
  kvtier::define(env, exports, "start", start);
  kvtier::define(env, exports, "count", count);
  kvtier::define(env, exports, "end", end);
  return exports;
}
`
const folder = mkdtempSync(join(tmpdir(), 'kvtier-threads-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Under ThreadSanitizer, which sees the addon's and the driver's code, locks and threads, and leaves Node's alone. */
function run(library: string, argv: readonly string[]) {
  const { stdout, stderr, status } = runPreloaded(library, argv, { TSAN_OPTIONS: 'ignore_noninstrumented_modules=1' })
  return { stdout, stderr, status }
}

it('no two threads of the addon meet on a byte in Node, whichever ends first (seeds 1, 2)', {
  timeout: SANITIZED_TIMEOUT_MS,
}, async (context) => {
  const library = libraryOf(context, 'libtsan.so')
  const binary = await buildSanitized({ root: REPOSITORY, flags: FLAGS, folder: join(folder, 'build') })
  const driver = await buildLibrary(['-fsanitize=thread'])
  const programs = join(REPOSITORY, 'test/support/programs')
  for (const seed of ['1', '2']) {
    const lives = run(library, [join(programs, 'cuda-life.ts'), binary, driver, seed, '40', '3'])
    expect(lives).toEqual({ stdout: '40 rounds, with fences\n', stderr: '', status: 0 })
    const devices = run(library, [join(programs, 'cuda-workout.ts'), binary, driver, seed, '150'])
    expect(devices).toEqual({ stdout: 'done\n', stderr: '', status: 0 })
    const files = run(library, ['--expose-gc', join(programs, 'file-workout.ts'), binary, seed, '3'])
    expect(files).toEqual({ stdout: 'done\n', stderr: '', status: 0 })
    const rest = run(library, [join(programs, 'addon-workout.ts'), binary, seed, '300'])
    expect(rest).toEqual({ stdout: 'done\n', stderr: '', status: 0 })
  }
})

it('a thread of an addon that meets JavaScript on a byte is found out', {
  timeout: SANITIZED_TIMEOUT_MS,
}, async (context) => {
  const library = libraryOf(context, 'libtsan.so')
  const root = join(folder, 'wrong')
  mkdirSync(addonSources(root), { recursive: true })
  cpSync(join(addonSources(REPOSITORY), 'arguments.h'), join(addonSources(root), 'arguments.h'))
  writeFileSync(join(addonSources(root), 'module.cc'), COUNTS_TWICE)
  const binary = await buildSanitized({ root, flags: FLAGS, folder: join(folder, 'wrong-build') })
  const call = `const { start, count, end } = require(${JSON.stringify(binary)}); start(); count(); end()`
  const { stderr, status } = run(library, ['-e', call])
  expect(stderr).toContain('ThreadSanitizer: data race')
  expect(status).not.toBe(0)
})
