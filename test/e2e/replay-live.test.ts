import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../support/until.ts'

let directory: string
let trace: string

beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvtier-replay-live-'))
  trace = join(directory, 'hour.jsonl')
  // An hour of one prompt a second, each twice: it never ends by itself within a test.
  const lines = Array.from({ length: 3600 }, (_, second) => {
    const ids = [0, 1 + (second >> 1), 10_000 + (second >> 1)]
    return JSON.stringify({ timestamp: second * 1000, input_length: 3 * 512, output_length: 8, hash_ids: ids })
  })
  writeFileSync(trace, lines.join('\n'))
})
afterAll(() => rmSync(directory, { recursive: true }))

class Replay {
  readonly child: ChildProcess
  stdout = ''
  stderr = ''

  constructor(...argv: string[]) {
    this.child = spawn('node_modules/.bin/node', ['src/cli/main.ts', 'replay', trace, ...argv])
    this.child.stdout!.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text
    })
    this.child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text
    })
  }

  async exitCode(): Promise<number | null> {
    const [code] = (await once(this.child, 'close')) as [number | null]
    return code
  }
}

function value(exposition: string, name: string): number {
  const lines = exposition.split('\n').filter((line) => line.startsWith(`${name}{`))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

describe('a replay that runs', () => {
  it('shows its traffic on /metrics, and on SIGINT ends with what it has so far', async () => {
    const replay = new Replay('--speed', '50', '--metadata-only', '--tiers', 'l1', '--prometheus-port', '0', '--json')
    const url = await until('it says where metrics are', () => /http:\S+/.exec(replay.stderr)?.[0])
    const text = await until('a hit is shown', async () => {
      const exposition = await (await fetch(url)).text()
      return value(exposition, 'cache_mp_lookup_hit_tokens_total') > 0 ? exposition : undefined
    })
    expect(value(text, 'cache_mp_lookup_requested_tokens_total')).toBeGreaterThan(
      value(text, 'cache_mp_lookup_hit_tokens_total'),
    )
    expect(value(text, 'cache_mp_l1_write_chunks_total')).toBeGreaterThan(0)
    replay.child.kill('SIGINT')
    replay.child.kill('SIGINT') // as under npm, which passes on what the terminal has sent already
    expect(await replay.exitCode()).toBe(0)
    const report = JSON.parse(replay.stdout)
    expect(report.cut_short).toBe(true)
    expect(report.requests).toBeGreaterThan(1)
    expect(report.requests).toBeLessThan(3600)
  })

  it('says in one line that the port of its metrics is taken', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const replay = new Replay('--flat-out', '--metadata-only', '--prometheus-port', `${port}`)
    expect(await replay.exitCode()).toBe(1)
    expect(replay.stderr).toMatch(/^kvtier: .*--prometheus-port.*\n$/)
    server.close()
  })
})
