import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AGENT_TRACE, CONVERSATION_TRACE, withAgentTrace, withConversationTrace } from '../support/public-trace.ts'

let directory: string
let trace: string

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvtier-replay-test-'))
  trace = join(directory, 'small.jsonl')
  const prompts = [
    [1, 2, 3],
    [4, 5],
    [1, 2, 6],
    [4, 5, 7, 8],
    [1, 2, 3],
  ]
  const lines = prompts.map((ids, index) => {
    return JSON.stringify({
      timestamp: index * 500,
      input_length: ids.length * 512 - 12,
      output_length: 4,
      hash_ids: ids,
    })
  })
  writeFileSync(trace, `${lines.join('\n')}\n`)
})
afterAll(() => rmSync(directory, { recursive: true }))

function replay(...argv: string[]) {
  const env = { ...process.env, NO_COLOR: '1', DEBUG: '' }
  const command = ['src/cli/main.ts', 'replay', ...argv]
  const { status, stdout, stderr } = spawnSync('node_modules/.bin/node', command, { encoding: 'utf8', env })
  return { status, stderr, stdout: stdout.replaceAll(directory, 'DIR') }
}

/** For a whole trace on a busy machine. */
const TRACE_MS = 300_000

const METADATA = ['--metadata-only', '--flat-out', '--tiers', 'l1', '--l1-chunks', '64'] as const

describe('kvtier replay', () => {
  it('prints the numbers that scripts rely on', () => {
    const { status, stdout, stderr } = replay(trace, ...METADATA, '--partial-blocks', 'count', '--json')
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const report = JSON.parse(stdout)
    expect(report).toMatchObject({ requests: 5, block_refs: 15, block_hits: 7, hit_ratio: 7 / 15 })
    expect(report.seconds).toBeGreaterThan(0)
    expect(report.refs_per_second).toBeCloseTo(15 / report.seconds, 3)
    expect(report.tiers).toEqual({ l1: { hits: 7, hit_ratio: 7 / 15, capacity_bytes: 64 * 512 * 64, evictions: 0 } })
    expect(report.simulated).toContainEqual(expect.stringContaining('hash ids'))
  })

  it('leaves partial blocks out unless told to count them', () => {
    const { block_refs, block_hits } = JSON.parse(replay(trace, ...METADATA, '--json').stdout)
    expect({ block_refs, block_hits }).toEqual({ block_refs: 10, block_hits: 5 })
  })

  it('ends with a table', async () => {
    const { status, stdout } = replay(trace, ...METADATA)
    expect(status).toBe(0)
    const table = stdout.replace(/^(seconds|references a second) .*$/gm, '$1 ...')
    await expect(table).toMatchFileSnapshot('cli/replay-table.txt')
  })

  it('moves and verifies real bytes over all tiers', () => {
    const argv = [
      '--flat-out',
      '--l0-size',
      '1MiB',
      '--l1-size',
      '1MiB',
      '--l2-size',
      '8MiB',
      '--verify',
      'all',
      '--json',
    ]
    const { status, stdout, stderr } = replay(trace, ...argv, '--l2-dir', directory)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const report = JSON.parse(stdout)
    expect(report).toMatchObject({ block_hits: 5, verified_blocks: 5, corrupt_blocks: 0 })
    expect(report.bytes_moved.l0_to_l1).toBe(5 * report.block_bytes)
    expect(report.bytes_moved.l1_to_l2).toBeGreaterThanOrEqual(5 * report.block_bytes)
    expect(Object.keys(report.tiers)).toEqual(['l0', 'l1', 'l2'])
  })

  it('runs at a multiple of real time, and serves metrics meanwhile', () => {
    const { status, stderr } = replay(trace, '--speed', '100', '--metadata-only', '--prometheus-port', '0')
    expect(status).toBe(0)
    expect(stderr).toMatch(/^metrics at http:\/\/127\.0\.0\.1:\d+\/metrics\n$/)
  })

  it('sweeps sizes and policies', async () => {
    const { status, stdout } = replay(trace, '--sweep', '--partial-blocks', 'count', '--sweep-chunks', '16,64')
    expect(status).toBe(0)
    await expect(stdout).toMatchFileSnapshot('cli/replay-sweep.txt')
  })

  it('sweeps no size twice where shares of a small trace are the smallest size', () => {
    const { status, stdout } = replay(trace, '--sweep', '--policy', 'lru', '--partial-blocks', 'count', '--json')
    expect(status).toBe(0)
    const sizes = JSON.parse(stdout).rows.map((row: { l1_chunks: number }) => row.l1_chunks)
    expect(sizes).toEqual([...new Set(sizes)])
    expect(sizes[0]).toBe(16)
  })

  it.each([
    [['--tiers', 'l2'], 2, '--tiers is "l2": write l1, with l0, l2 or both, such as l0,l1'],
    [['--model', 'a/b'], 2, '--model goes with --format agent-text; leave it out'],
    [['--chunk-tokens', '16'], 2, '--chunk-tokens goes with --format agent-text; leave it out'],
    [
      ['--format', 'agent-text', '--partial-blocks', 'count'],
      2,
      '--partial-blocks count goes with --format mooncake: texts are stored in whole chunks',
    ],
    [['--speed', '0'], 2, '--speed is "0": write a number above 0, such as 60'],
    [['--speed', '2', '--flat-out'], 2, '--flat-out and --speed exclude each other; give one of them'],
    [['--l1-chunks', 'many'], 2, '--l1-chunks is "many": write a whole number from 16 to 40000000'],
    [['--policy', 'fifo'], 2, '--policy is "fifo"; write one of: lru, s3-fifo, arc, adaptive'],
    [['--sweep-chunks', '3'], 2, '--sweep-chunks is "3": write numbers of 16 and more, with commas'],
  ])('refuses %j with exit code %i', (argv, code, message) => {
    expect(replay(trace, ...argv)).toEqual({ status: code, stdout: '', stderr: `kvtier: ${message}\n` })
  })

  it('names the line of a bad trace, with exit code 1', () => {
    const bad = join(directory, 'bad.jsonl')
    writeFileSync(bad, '{"timestamp": 0, "input_length": 512, "output_length": 1, "hash_ids": [1]}\n{"timestamp": 0}\n')
    const { status, stdout, stderr } = replay(bad, ...METADATA)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toBe(`kvtier: ${bad}:2: input_length is missing, not a whole number of tokens\n`)
  })

  it('says that a trace is not there', () => {
    const { status, stderr } = replay(join(directory, 'none.jsonl'), ...METADATA)
    expect(status).toBe(1)
    expect(stderr).toMatch(/^kvtier: trace .*none\.jsonl: no such file\n$/)
  })
})

describe('kvtier replay of texts', { timeout: TRACE_MS }, () => {
  /** Two agents that take turns; the prompt of each turn has all earlier ones in it. */
  function writeAgents(): string {
    const lines: string[] = []
    const said = ['You are the first agent. ', 'You are the second agent. ']
    for (let turn = 0; turn < 6; turn += 1) {
      said[turn % 2] += `In turn ${turn} I read file number ${turn}, and then some more of it. `.repeat(20)
      const request = { timestamp: 1_000_000 * turn, input: said[turn % 2], output: 'Go on.', session_id: turn % 2 }
      lines.push(JSON.stringify(request))
    }
    const file = join(directory, 'agents.jsonl')
    writeFileSync(file, `${lines.join('\n')}\n`)
    return file
  }

  it('ends with a table that has the sessions, and the references when asked', async () => {
    const { status, stdout, stderr } = replay(writeAgents(), '--format', 'agent-text', ...METADATA, '--reference')
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    const table = stdout.replace(/^(seconds|references a second) .*$/gm, '$1 ...')
    await expect(table).toMatchFileSnapshot('cli/replay-agent-text.txt')
  })

  it('stores real bytes under the keys of the texts, and reads them back', () => {
    const argv = ['--flat-out', '--chunk-tokens', '16', '--verify', 'all', '--l2-dir', directory, '--json']
    const { status, stdout } = replay(writeAgents(), '--format', 'agent-text', ...argv)
    expect(status).toBe(0)
    const report = JSON.parse(stdout)
    expect(report).toMatchObject({ requests: 6, block_tokens: 16, corrupt_blocks: 0, model: 'Qwen/Qwen3-8B' })
    expect(report.sessions).toEqual({ count: 2, ended: 2, open_at_once_max: 2 })
    expect(report.verified_blocks).toBeGreaterThan(50)
  })

  it('names a line that cannot be tokenized, and a model without a tokenizer', () => {
    const bad = join(directory, 'bad-agents.jsonl')
    writeFileSync(bad, `{"timestamp": 1, "input": "\\ud800", "output": "", "session_id": "s"}\n`)
    const { status, stderr } = replay(bad, '--format', 'agent-text', ...METADATA)
    expect(status).toBe(1)
    expect(stderr).toContain(`${bad}:1: a text cannot be tokenized: `)
    const unknown = replay(bad, '--format', 'agent-text', '--model', 'no/such', ...METADATA)
    expect(unknown.status).toBe(1)
    expect(unknown.stderr).toContain('there is no tokenizer of the model "no/such"')
  })

  it('hits what an infinite cache hits of real sessions, with room for all of them', withAgentTrace, () => {
    const argv = ['--metadata-only', '--flat-out', '--tiers', 'l1', '--l1-chunks', '1000', '--reference', '--json']
    const report = JSON.parse(replay(AGENT_TRACE, '--format', 'agent-text', ...argv).stdout)
    expect(report).toMatchObject({ requests: 402, block_refs: 9720, block_hits: 9089, prompt_tokens: 2_539_538 })
    expect(report.sessions).toEqual({ count: 20, ended: 20, open_at_once_max: 1 })
    expect(report.reference.infinite).toBe(report.hit_ratio)
  })

  it('is within half a point of exact LRU on real sessions that do not fit', withAgentTrace, () => {
    const argv = ['--metadata-only', '--flat-out', '--tiers', 'l1', '--l1-chunks', '158', '--reference', '--json']
    const { hit_ratio, reference } = JSON.parse(replay(AGENT_TRACE, '--format', 'agent-text', ...argv).stdout)
    expect(Math.abs(hit_ratio - reference.exact_lru)).toBeLessThan(0.005)
  })
})

describe('kvtier replay of the Mooncake conversation trace', { ...withConversationTrace, timeout: TRACE_MS }, () => {
  it.each([
    [9_139, 0.1958],
    [18_279, 0.2789],
    [45_697, 0.3535],
  ])('is within half a point of exact LRU at %i blocks', (chunks, exact) => {
    const argv = [
      '--metadata-only',
      '--flat-out',
      '--tiers',
      'l1',
      '--l1-chunks',
      `${chunks}`,
      '--partial-blocks',
      'count',
    ]
    const report = JSON.parse(replay(CONVERSATION_TRACE, ...argv, '--json').stdout)
    expect({ requests: report.requests, refs: report.block_refs }).toEqual({ requests: 12_031, refs: 288_500 })
    expect(Math.abs(report.hit_ratio - exact)).toBeLessThan(0.005)
  })
})
