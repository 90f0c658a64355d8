import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runCli } from '../../../src/cli/run-cli.ts'
import { CapturedTerminal } from '../../support/captured-terminal.ts'

const GIB = 1024 ** 3
const QUOTA = {
  cache_salt: 'team a',
  source: 'own',
  l1_bytes: 2 * GIB,
  l2_bytes: 0,
  l1_usage_bytes: GIB,
  l2_usage: [{ l2_name: 'disk', bytes: 3 * GIB }],
}

let server: Server
let url: string
const asked: { method: string; url: string; body: unknown }[] = []

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part)
    const text = Buffer.concat(parts).toString()
    asked.push({ method: request.method!, url: request.url!, body: text === '' ? null : JSON.parse(text) })
    if (request.method === 'DELETE') {
      response.writeHead(204).end()
      return
    }
    const list = { defaults: { l1_bytes: 5 * GIB, l2_bytes: 0 }, quotas: [QUOTA], left_out: 2 }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(request.method === 'GET' ? list : QUOTA))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => server.close())

async function kvtier(...argv: string[]) {
  asked.length = 0
  const terminal = new CapturedTerminal()
  const code = await runCli(['quota', ...argv, '--url', url], terminal)
  return { code, stdout: terminal.stdout, stderr: terminal.stderr }
}

it('lists salts, what they hold, and the default of every other', async () => {
  const { code, stdout } = await kvtier('list')
  expect(code).toBe(0)
  expect(stdout.replace(/ +/g, ' ')).toContain('"team a" own 1.00 GiB 2GiB 3.00 GiB no limit')
  expect(stdout.replace(/ +/g, ' ')).toContain('every other default 5GiB no limit')
  expect(stdout).toContain('2 more salts are not shown.')
  expect(JSON.parse((await kvtier('list', '--json')).stdout).quotas).toEqual([QUOTA])
})

it('sets and removes the quota of a salt, whatever the salt', async () => {
  expect(await kvtier('set', 'team a', '--l1', '2GiB', '--l2', '0')).toMatchObject({ code: 0 })
  expect(asked).toEqual([{ method: 'PUT', url: '/v1/quotas/team%20a', body: { l1_bytes: 2 * GIB, l2_bytes: 0 } }])
  await kvtier('set', '', '--l1', '1MiB')
  expect(asked).toEqual([{ method: 'PUT', url: '/v1/quotas/', body: { l1_bytes: 2 ** 20 } }])
  expect(await kvtier('remove', '?&=#')).toMatchObject({ code: 0 })
  expect(asked).toEqual([{ method: 'DELETE', url: '/v1/quotas/%3F%26%3D%23', body: null }])
})

it('asks nothing of the engine when the words are wrong', async () => {
  expect((await kvtier('set', 'a')).stderr).toContain('needs --l1, --l2 or both')
  expect((await kvtier('set', 'a', '--l1', 'lots')).stderr).toContain('--l1 is "lots"')
  expect(await kvtier('set', 'a', '--l1', 'lots')).toMatchObject({ code: 2 })
  expect(await kvtier('remove', '..')).toMatchObject({ code: 2 })
  expect(asked).toEqual([])
})
