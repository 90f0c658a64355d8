import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { random } from '../support/random.ts'
import { REPOSITORY } from '../support/source-tree.ts'

const REQUESTS = 300
let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvtier-replay-cli-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** A trace of conversations that go on for a few turns; many more blocks than L0 and L1 hold. */
function writeTrace(seed: number): string {
  const next = random(seed)
  const conversations: number[][] = []
  let blocks = 0
  const lines = Array.from({ length: REQUESTS }, (_, index) => {
    const isNew = conversations.length < 8 || next(3) === 0
    const ids = isNew ? [] : conversations[next(conversations.length)]!
    if (isNew) conversations.push(ids)
    for (let more = 1 + next(6); more > 0; more -= 1) ids.push(++blocks)
    const request = { timestamp: index * 100, input_length: ids.length * 512, output_length: 4, hash_ids: ids }
    return JSON.stringify(request)
  })
  const file = join(folder, `trace-${seed}.jsonl`)
  writeFileSync(file, `${lines.join('\n')}\n`)
  return file
}

/** As scripts run it. Without its set-up step, which would install packages in the middle of the tests. */
function replay(...argv: string[]) {
  const npm = ['run', '--silent', '--ignore-scripts', 'replay', '--', ...argv]
  return spawnSync('npm', npm, { cwd: REPOSITORY, encoding: 'utf8', env: { ...process.env, NO_COLOR: '1', DEBUG: '' } })
}

it.each([1, 2])('npm run replay moves real bytes over three small tiers, and none is spoilt (seed %i)', (seed) => {
  const sizes = ['--l0-size', '2MiB', '--l1-size', '4MiB', '--l2-size', '16MiB', '--l2-dir', folder]
  const { status, stdout } = replay(writeTrace(seed), '--flat-out', ...sizes, '--verify', 'all', '--json')
  expect(status).toBe(0)
  const report = JSON.parse(stdout)
  expect(report).toMatchObject({ requests: REQUESTS, corrupt_blocks: 0 })
  expect(report.verified_blocks).toBeGreaterThan(100)
  for (const tier of ['l0', 'l1', 'l2']) expect(report.tiers[tier].hits, tier).toBeGreaterThan(0)
  expect(report.tiers.l1.evictions).toBeGreaterThan(0)
})

it('npm run replay prints one JSON object and nothing else, so that scripts can read it', () => {
  const flags = ['--metadata-only', '--flat-out', '--tiers', 'l1', '--l1-chunks', '128', '--partial-blocks', 'count']
  const { status, stdout } = replay(writeTrace(3), ...flags, '--json')
  expect({ status, lines: stdout.trimEnd().split('\n').length }).toEqual({ status: 0, lines: 1 })
  const keys = ['requests', 'block_refs', 'block_hits', 'hit_ratio', 'seconds', 'refs_per_second', 'tiers']
  expect(Object.keys(JSON.parse(stdout))).toEqual(expect.arrayContaining(keys))
})
