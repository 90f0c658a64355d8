import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { loadAddonOf } from '../../../src/native/addon.ts'
import { buildAddon } from '../../../src/native/addon-build.ts'
import { addonFolder, addonSources } from '../../../src/native/addon-files.ts'
import { addonOf } from '../../support/addon.ts'
import { REPOSITORY } from '../../support/source-tree.ts'

const ENTRY = `
#define NAPI_VERSION 9
#include <node_api.h>
#include "kept/answer.h"
napi_value processor(napi_env env, napi_callback_info) {
  napi_value text;
  napi_create_string_utf8(env, answer(), NAPI_AUTO_LENGTH, &text);
  return text;
}
NAPI_MODULE_INIT() {
  napi_value call;
  napi_create_function(env, "processor", NAPI_AUTO_LENGTH, processor, nullptr, &call);
  napi_set_named_property(env, exports, "processor", call);
  return exports;
}
`

let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kvtier-addon-'))
  write('module.cc', ENTRY)
  write('kept/answer.h', '#pragma once\nconst char* answer();\n')
  write('kept/answer.cc', '#include "answer.h"\nconst char* answer() { return "first"; }\n')
})
afterEach(() => rmSync(root, { recursive: true }))

function write(name: string, text: string): void {
  mkdirSync(join(addonSources(root), 'kept'), { recursive: true })
  writeFileSync(join(addonSources(root), name), text)
}

function build(compilers = ['g++', 'clang++', 'c++'], env: NodeJS.ProcessEnv = process.env) {
  return buildAddon({ root, compilers, env })
}

function loadedAnswer(): string {
  const addon = loadAddonOf(root)
  return typeof addon === 'string' ? addon : addon.processor()
}

it('compiles every source of every folder, once; changed sources replace the binary', async (context) => {
  await addonOf(context) // there is a compiler
  expect(await build()).toMatchObject({ isNew: true })
  expect(await build()).toMatchObject({ isNew: false })
  expect(loadedAnswer()).toBe('first')
  write('kept/answer.cc', '#include "answer.h"\nconst char* answer() { return "second"; }\n')
  expect(loadedAnswer()).toContain('not built')
  expect(await build()).toMatchObject({ isNew: true })
  expect(loadedAnswer()).toBe('second')
  expect(readdirSync(addonFolder(root))).toHaveLength(1)
})

it('several builds at once leave one binary and no rest', async (context) => {
  await addonOf(context)
  const results = await Promise.all([build(), build(), build()])
  expect(results.filter((result) => 'reason' in result)).toEqual([])
  expect(readdirSync(addonFolder(root))).toHaveLength(1)
  expect(loadedAnswer()).toBe('first')
})

it('says what the compiler said, in one line, and leaves nothing behind', async (context) => {
  await addonOf(context)
  write('kept/answer.cc', 'const char* answer() { return missing; }\n')
  const result = await build()
  expect(result).toMatchObject({ reason: expect.stringMatching(/^kept\/answer\.cc:1:.*error.*missing[^\n]*$/) })
  expect(readdirSync(addonFolder(root))).toEqual([])
})

it('without a compiler there is a reason and no folder', async () => {
  const empty = join(root, 'empty')
  mkdirSync(empty)
  const result = await build(['g++', 'c++'], { PATH: empty })
  expect(result).toEqual({ reason: 'no C++ compiler (g++, c++)' })
  expect(readdirSync(root)).not.toContain('build')
})

it('an install without a compiler says so and succeeds, unless the addon is asked for', () => {
  const script = join(REPOSITORY, '.ci/build-addon.ts')
  const install = (more: NodeJS.ProcessEnv) => {
    // A compiler that is not there.
    const env = { ...process.env, CXX: 'kvtier-no-compiler', KVTIER_REQUIRE_NATIVE: '', ...more }
    return execFileSync(process.execPath, [script], { env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
  }
  expect(() => install({})).not.toThrow()
  expect(() => install({ KVTIER_REQUIRE_NATIVE: '1' })).toThrow('no C++ compiler (kvtier-no-compiler)')
})
