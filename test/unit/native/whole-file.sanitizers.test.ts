import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { addonSources } from '../../../src/native/addon-files.ts'
import { libraryOf, runThreads, SANITIZED_TIMEOUT_MS } from '../../support/sanitizers.ts'
import { REPOSITORY } from '../../support/source-tree.ts'

const folder = mkdtempSync(join(tmpdir(), 'kvtier-sanitizers-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** The program that moves files without Node, with a sanitizer in it. */
function build(sanitizer: string): string {
  const program = join(folder, sanitizer)
  const sources = [
    join(REPOSITORY, 'test/support/native/file-workout.cc'),
    join(addonSources(REPOSITORY), 'whole-file.cc'),
  ]
  const flags = ['-std=c++17', '-O1', '-g', `-fsanitize=${sanitizer}`, '-fno-sanitize-recover=all', '-pthread']
  const { stderr } = spawnSync('g++', [...flags, ...sources, '-o', program], {
    encoding: 'utf8',
    timeout: SANITIZED_TIMEOUT_MS,
  })
  expect(stderr).toBe('')
  return program
}

function files(name: string): string {
  const path = join(folder, name)
  mkdirSync(path)
  return path
}

it('whatever call fails, stops short or is interrupted, a file is moved whole or the failure is told, and it is closed', {
  timeout: SANITIZED_TIMEOUT_MS,
}, (context) => {
  libraryOf(context, 'libasan.so')
  const { stdout, stderr, status } = spawnSync(build('address,undefined'), [files('a')], { encoding: 'utf8' })
  expect([stdout, stderr, status]).toEqual(['done\n', '', 0])
})

it('threads that move files never meet on a byte, and two that did would be found out', {
  timeout: SANITIZED_TIMEOUT_MS,
}, (context) => {
  libraryOf(context, 'libtsan.so')
  const program = build('thread')
  const right = runThreads(program, [files('b')])
  expect([right.stdout, right.stderr, right.status]).toEqual(['done\n', '', 0])
  const wrong = runThreads(program, [files('c'), 'wrong'])
  expect(wrong.stderr).toContain('ThreadSanitizer: data race')
  expect(wrong.status).not.toBe(0)
})
