import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { expect, it } from 'vitest'

const NODE = 'node_modules/.bin/node'
const MAIN = 'src/cli/main.ts'

function kvtier(...argv: string[]) {
  const env = { ...process.env, NO_COLOR: '1', DEBUG: '' }
  const { status, stdout, stderr } = spawnSync(NODE, [MAIN, ...argv], { encoding: 'utf8', env })
  return { status, stdout, stderr }
}

it('exits with 0 for help, and writes it to stdout', () => {
  const { status, stdout, stderr } = kvtier('--help')
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(stdout).toContain('Usage:')
})

it('exits with 2 and one line for an unknown option', () => {
  const { status, stdout, stderr } = kvtier('replay', 'x.jsonl', '--sped', '3')
  expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  expect(stderr).toBe('kvtier: --sped is not an option; did you mean --speed?\n')
})

it('exits with 1 and one line when no engine answers', () => {
  const { status, stderr } = kvtier('status', '--url', 'http://127.0.0.1:1')
  expect(status).toBe(1)
  expect(stderr).toMatch(/^kvtier: no engine answers at .*; is it running\?\n$/)
})

it('exits with 2 when the file of a token holds more than a token', () => {
  const { status, stderr } = kvtier('status', '--url', 'http://127.0.0.1:4', '--token-file', 'package.json')
  expect(status).toBe(2)
  expect(stderr).toBe('kvtier: --token-file is "package.json": it must hold one token and nothing else\n')
})

it('prints one JSON object with --json', () => {
  const { status, stdout, stderr } = kvtier('print', 'errors', '--json')
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  expect(JSON.parse(stdout).errors).toContainEqual(expect.objectContaining({ code: 'NO_ROOM', retryable: true }))
})

it('is quiet when the reader of its output goes away', async () => {
  const child = spawn(NODE, [MAIN, 'print', 'errors'], { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.destroy()
  let stderr = ''
  child.stderr.on('data', (piece) => {
    stderr += piece
  })
  const [code] = await once(child, 'exit')
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
})

it('says in one line that its output has no room', () => {
  const full = openSync('/dev/full', 'w')
  try {
    const { status, stderr } = spawnSync(NODE, [MAIN, 'print', 'errors'], {
      encoding: 'utf8',
      stdio: ['ignore', full, 'pipe'],
    })
    expect({ status, stderr }).toEqual({ status: 1, stderr: 'kvtier: the output cannot be written (ENOSPC)\n' })
  } finally {
    closeSync(full)
  }
})
