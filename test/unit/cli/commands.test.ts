import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runCli } from '../../../src/cli/run-cli.ts'
import { CATALOGUE } from '../../../src/metrics/catalogue.ts'
import { CapturedTerminal } from '../../support/captured-terminal.ts'

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'kvtier-cli-'))
})
afterAll(() => rmSync(directory, { recursive: true }))

async function kvtier(...argv: string[]) {
  const terminal = new CapturedTerminal()
  const code = await runCli(argv, terminal)
  return { code, stdout: terminal.stdout, stderr: terminal.stderr }
}

async function json(...argv: string[]) {
  const { code, stdout } = await kvtier(...argv, '--json')
  return { code, ...JSON.parse(stdout) }
}

describe('kvtier token', () => {
  it('creates, lists and revokes tokens of a data directory', async () => {
    const data = ['--data-dir', join(directory, 'tokens')]
    const created = await json(
      'token',
      'create',
      '--scope',
      'read',
      '--scope=admin',
      '--name',
      'ci',
      '--ttl',
      '1h',
      ...data,
    )
    expect(created).toMatchObject({ code: 0, scopes: ['read', 'admin'], name: 'ci' })
    expect(created.token.length).toBeGreaterThan(32)
    const listed = await json('token', 'list', ...data)
    expect(listed.tokens).toEqual([
      expect.objectContaining({ id: created.id, state: 'valid', scopes: ['read', 'admin'] }),
    ])
    expect(JSON.stringify(listed)).not.toContain(created.token)
    expect((await kvtier('token', 'revoke', created.id, ...data)).stdout).toBe(`Revoked ${created.id}.\n`)
    expect((await json('token', 'list', ...data)).tokens[0].state).toBe('revoked')
  })

  it('prints the token alone on stdout', async () => {
    const { stdout, stderr } = await kvtier(
      'token',
      'create',
      '--scope',
      'read',
      '--data-dir',
      join(directory, 'alone'),
    )
    expect(stdout).toMatch(/^\S+\n$/)
    expect(stderr).toContain('shown this once')
  })

  it.each([
    [[], '--scope'],
    [['--scope', 'root'], '--scope'],
    [['--scope', 'read', '--ttl', 'soon'], '--ttl'],
  ])('refuses %j', async (argv, option) => {
    const { code, stderr } = await kvtier('token', 'create', ...argv, '--data-dir', join(directory, 'refused'))
    expect(code).toBe(2)
    expect(stderr).toContain(option)
    expect(statSync(join(directory, 'refused'), { throwIfNoEntry: false })).toBeUndefined()
  })

  it('fails to revoke what there is not', async () => {
    expect((await json('token', 'revoke', 'tok_0', '--data-dir', directory)).error.code).toBe('NOT_FOUND')
  })
})

describe('kvtier print', () => {
  it('lists every metric of the catalogue for scripts', async () => {
    const { metrics } = await json('print', 'metrics')
    expect(metrics.map(({ name }: { name: string }) => name)).toEqual(CATALOGUE.map(({ name }) => name))
    for (const metric of metrics) {
      expect(Object.keys(metric).sort()).toEqual(['always_on', 'extension', 'help', 'labels', 'name', 'type'])
    }
    expect(metrics.filter(({ extension }: { extension: boolean }) => !extension)).toHaveLength(46)
  })

  it.each(['metrics', 'options', 'errors', 'events'])('fits the table of %s into 100 columns', async (topic) => {
    const { code, stdout } = await kvtier('print', topic)
    expect(code).toBe(0)
    for (const line of stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(100)
  })

  it('brings the tables of a page up to date, once', async () => {
    const page = join(directory, 'page.md')
    writeFileSync(page, 'Before\n<!-- generated:errors -->\nold\n<!-- /generated -->\nAfter\n')
    const stale = await json('print', 'docs', '--file', page)
    expect(stale).toMatchObject({ code: 1, is_stale: true, tables: ['errors'] })
    expect(readFileSync(page, 'utf8')).toContain('old')
    expect((await kvtier('print', 'docs', '--write', '--file', page)).code).toBe(0)
    const text = readFileSync(page, 'utf8')
    expect(text).toMatch(/^Before\n<!-- generated:errors -->\n\| code \|/)
    expect(text).toContain('| `NO_ROOM` |')
    expect(text.endsWith('<!-- /generated -->\nAfter\n')).toBe(true)
    expect(await json('print', 'docs', '--file', page)).toMatchObject({ code: 0, is_stale: false })
  })

  it('refuses a page without tables, or with one that nobody generates', async () => {
    const page = join(directory, 'other.md')
    writeFileSync(page, 'text\n')
    expect((await kvtier('print', 'docs', '--file', page)).stderr).toContain('has no line <!-- generated:')
    writeFileSync(page, '<!-- generated:prices -->\n<!-- /generated -->\n')
    expect((await kvtier('print', 'docs', '--file', page)).stderr).toContain('asks for a table "prices"')
  })
})

describe('kvtier check-config', () => {
  it('says each value and where it comes from', async () => {
    const config = join(directory, 'kvtier.yaml')
    writeFileSync(config, 'l1:\n  size: 64MiB\nhttp:\n  port: 1234\n')
    const { code, options, config_file } = await json('check-config', '--config', config, '--http-port', '4321')
    expect({ code, config_file }).toEqual({ code: 0, config_file: config })
    expect(options['l1-size']).toEqual({ value: '64MiB', source: 'file' })
    expect(options['http-port']).toEqual({ value: '4321', source: 'flag' })
    expect(options['prometheus-port']).toEqual({ value: '9090', source: 'default' })
  })

  it('refuses a wrong value in one line, with exit code 2', async () => {
    const { code, stdout, stderr } = await kvtier('check-config', '--l1-high', '2')
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toBe('kvtier: --l1-high is "2": write a number from 0 to 1, such as 0.95\n')
  })
})

describe('kvtier status', () => {
  let server: Server
  let address: string
  beforeAll(async () => {
    server = createServer((request, response) => {
      const isAllowed = request.url === '/status' && request.headers.authorization === 'Bearer right'
      response.writeHead(isAllowed ? 200 : 401, { 'content-type': 'application/json' })
      const answer = { l1: { usageBytes: 7, loops: ['a', 'b'] }, simulated: [] }
      response.end(
        JSON.stringify(isAllowed ? answer : { error: { code: 'UNAUTHENTICATED', message: 'a token is needed' } }),
      )
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    address = `127.0.0.1:${(server.address() as AddressInfo).port}`
    writeFileSync(join(directory, 'addresses.json'), JSON.stringify({ http: address, pid: 1 }))
    writeFileSync(join(directory, 'token'), 'right\n')
  })
  afterAll(() => server.close())

  it('finds the engine of a data directory and shows what it says', async () => {
    const argv = ['status', '--data-dir', directory, '--token-file', join(directory, 'token')]
    const { code, stdout } = await kvtier(...argv)
    expect(code).toBe(0)
    expect(stdout).toMatch(/^l1 +value\n-+ +-+\nusageBytes +7 B\nloops +a, b$/m)
    expect(await json(...argv)).toMatchObject({ l1: { usageBytes: 7 } })
  })

  it('passes on why the engine refuses', async () => {
    const { code, stderr } = await kvtier('status', '--url', `http://${address}`)
    expect(code).toBe(1)
    expect(stderr).toBe(`kvtier: http://${address}/status answers 401: a token is needed; give --token-file\n`)
  })

  it('refuses an address that is none', async () => {
    expect((await kvtier('status', '--url', 'localhost:1')).code).toBe(2)
  })
})
