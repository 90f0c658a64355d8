import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { REPOSITORY, readTree, type TreeFile } from '../support/source-tree.ts'
import {
  DATA_THREAD_ENTRIES,
  dataThreadViolations,
  layerViolations,
  PACKAGE_HOMES,
  packagesUsed,
  RANKS,
} from './layer-rules.ts'

const source = readTree('src')

function tree(files: Record<string, string>): TreeFile[] {
  return Object.entries(files).map(([path, text]) => ({ path, text }))
}

describe('the source tree', () => {
  it('imports only downwards, and each package in its own folder', () => {
    expect(layerViolations(source)).toEqual([])
  })

  it('has a rank for every folder', () => {
    const folders = new Set(source.map(({ path }) => path.split('/')[1]!))
    expect([...folders].filter((name) => !(name in RANKS))).toEqual([])
  })

  it('loads nothing slow on the data thread', () => {
    expect(DATA_THREAD_ENTRIES.filter((entry) => !existsSync(join(REPOSITORY, entry)))).toEqual([])
    expect(dataThreadViolations(source, DATA_THREAD_ENTRIES)).toEqual([])
  })

  it('has a home for every dependency, and no home for anything else', () => {
    const { dependencies } = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8'))
    expect(Object.keys(PACKAGE_HOMES).sort()).toEqual(Object.keys(dependencies).sort())
    expect([...packagesUsed(source)].filter((name) => !(name in dependencies))).toEqual([])
  })
})

describe('the lock file', () => {
  // npm writes an incomplete lock when a registry lacks a package of another platform; npm ci then refuses it.
  it('names every package it asks for, with a version', () => {
    const { packages } = JSON.parse(readFileSync(join(REPOSITORY, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { version?: string; optionalDependencies?: Record<string, string> }>
    }
    const names = new Set(Object.keys(packages).map((path) => path.replace(/^.*node_modules\//, '')))
    const wanted = Object.values(packages).flatMap(({ optionalDependencies = {} }) => Object.keys(optionalDependencies))
    expect(wanted.filter((name) => !names.has(name))).toEqual([])
    expect(Object.keys(packages).filter((path) => packages[path]?.version === undefined)).toEqual([])
  })
})

describe('the rules see a breach', () => {
  const core = { 'src/core/clock.ts': 'export {}' }
  const breaches: Record<string, [Record<string, string>, RegExp]> = {
    'upwards, static': [{ 'src/core/a.ts': "import { b } from '../l1/b.ts'", 'src/l1/b.ts': '' }, /rank 0 .* rank 2/],
    'upwards, type-only': [
      { 'src/core/a.ts': "import type { B } from '../l1/b.ts'", 'src/l1/b.ts': '' },
      /core\/a\.ts:1 .* rank 0/,
    ],
    'upwards, over several lines': [
      { 'src/l1/a.ts': "\nimport {\n  type B,\n  c,\n} from '../engine/b.ts'", 'src/engine/b.ts': '' },
      /l1\/a\.ts:2 .* rank 4/,
    ],
    'upwards, re-export': [{ 'src/core/a.ts': "export * from '../l1/b.ts'", 'src/l1/b.ts': '' }, /rank 2/],
    'upwards, dynamic': [{ 'src/core/a.ts': "await import('../l1/b.ts')", 'src/l1/b.ts': '' }, /rank 2/],
    'upwards, type of an import': [
      { 'src/core/a.ts': "let b: typeof import('../l1/b.ts')", 'src/l1/b.ts': '' },
      /rank 2/,
    ],
    'upwards, worker': [
      { 'src/l1/a.ts': "new URL('../app/b.ts', import.meta.url)", 'src/app/b.ts': '' },
      /rank 2 .* rank 6/,
    ],
    'upwards, worker by name': [
      { 'src/l1/a.ts': "workerUrl(import.meta.url, '../app/b')", 'src/app/b.ts': '' },
      /rank 2 .* rank 6/,
    ],
    sideways: [{ 'src/l1/a.ts': "import '../l2/b.ts'", 'src/l2/b.ts': '' }, /rank 2 may not look at rank 2/],
    'a folder without a rank': [{ 'src/misc/a.ts': "import '../core/clock.ts'", ...core }, /without a rank/],
    'config beyond options': [
      { 'src/config/a.ts': "import '../l1/b.ts'", 'src/l1/b.ts': '' },
      /only core and files named/,
    ],
    'a package away from home': [{ 'src/l1/a.ts': "import koffi from 'koffi'" }, /belongs in native/],
    'a package by require': [{ 'src/l1/a.ts': "createRequire(import.meta.url)('koffi')" }, /belongs in native/],
    'a part of a package': [{ 'src/l1/a.ts': "import { a } from '@fastify/swagger/b'" }, /belongs in server\/http/],
    'an unknown package': [{ 'src/l1/a.ts': "import 'left-pad'" }, /no folder/],
    'files below the adapters': [
      { 'src/l1/a.ts': "import { open } from 'node:fs/promises'" },
      /imports node:fs\/promises/,
    ],
    'a bare built-in': [{ 'src/cli/a.ts': "import fs from 'fs'" }, /imports fs/],
    'the environment': [{ 'src/l1/a.ts': 'const home = process.env.HOME' }, /l1\/a\.ts:1 uses process\.env/],
    chance: [{ 'src/core/a.ts': 'Math.random()' }, /Math\.random/],
    'the clock': [{ 'src/engine/a.ts': '\nconst now = Date.now()' }, /engine\/a\.ts:2 uses the machine clock/],
    'the clock inside a template': [{ 'src/engine/a.ts': 'const a = `at $' + '{Date.now()}`' }, /machine clock/],
    'a timer': [{ 'src/transfer/a.ts': 'setTimeout(() => {}, 1)' }, /uses timers/],
    'a worker entry that no build would find': [
      { 'src/l2/a.ts': "new URL('./b.ts', import.meta.url)", 'src/l2/b.ts': '' },
      /use workerUrl/,
    ],
    'a worker entry that is not there': [{ 'src/l2/a.ts': "new URL('./gone.ts', import.meta.url)" }, /does not exist/],
  }
  it.each(Object.entries(breaches))('%s', (_name, [files, expected]) => {
    expect(layerViolations(tree(files)).join('\n')).toMatch(expected)
  })

  it('and leaves alone what is right', () => {
    const files = {
      ...core,
      'src/l1/options.ts': "// import '../engine/x.ts'\n/* Math.random() */ export const text = \"import 'koffi'\"",
      'src/l1/a.ts': "import { b } from './options.ts'\nconst say = 'Date.now()' + /'/.source + `process.env`",
      'src/config/a.ts': "import type { L1Options } from '../l1/options.ts'\nimport '../core/clock.ts'",
      'src/config/b.ts': "import type { S } from '../server/options.ts'",
      'src/server/options.ts': '',
      'src/cli/a.ts': "import { open } from 'node:fs/promises'\nimport '../l1/a.ts'\nprocess.env.HOME",
      'src/server/a.ts': 'server.setTimeout(1)',
      'src/native/a.ts': "import koffi from 'koffi'",
      'src/app/a.ts': "import manifest from '../../package.json' with { type: 'json' }",
    }
    expect(layerViolations(tree(files))).toEqual([])
  })

  it('a slow package on the data thread, however far away', () => {
    const files = {
      'src/app/compose.ts': "import { e } from '../engine/e.ts'\nimport type { F } from '../server/f.ts'",
      'src/engine/e.ts': "export const later = () => import('../activities/s.ts')",
      'src/activities/s.ts': "import { DatabaseSync } from 'node:sqlite'",
      'src/server/f.ts': "import fastify from 'fastify'",
    }
    expect(dataThreadViolations(tree(files), ['src/app/compose.ts'])).toEqual([
      'the data thread loads node:sqlite: app/compose.ts -> engine/e.ts -> activities/s.ts',
    ])
  })

  it('but not in a worker that the data thread starts', () => {
    const files = {
      'src/app/compose.ts': "new Worker(workerUrl(import.meta.url, './service-thread'))",
      'src/app/service-thread.ts': "import fastify from 'fastify'",
    }
    expect(dataThreadViolations(tree(files), ['src/app/compose.ts'])).toEqual([])
  })
})
