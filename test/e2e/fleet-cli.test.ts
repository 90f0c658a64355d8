import { createServer } from 'node:http'
import { afterEach, expect, it } from 'vitest'
import { needProgram, Prometheus } from '../support/debian-prometheus.ts'
import { EngineHome, type EngineProcess, runCommand } from '../support/engine-process.ts'
import { freePort } from '../support/free-port.ts'
import { HttpClient, promptOf } from '../support/http-client.ts'
import { until } from '../support/until.ts'

const SHARD_BYTES = 64 * 1024

let home: EngineHome | undefined
let prometheus: Prometheus | undefined
afterEach(async () => {
  await prometheus?.stop()
  await home?.remove()
  home = undefined
  prometheus = undefined
})

async function busyEngine(): Promise<EngineProcess> {
  home = new EngineHome()
  const engine = await home.start({ flags: ['--chunk-tokens', '16'] })
  const client = new HttpClient(engine)
  await client.register('fleet-model', SHARD_BYTES)
  const tokens = promptOf(7, 64)
  await client.store({ model: 'fleet-model', cache_salt: 'team "7"' }, tokens, SHARD_BYTES)
  for (let at = 0; at < 4; at += 1) {
    await client.release((await client.lookup('fleet-model', tokens, { cache_salt: 'team "7"' })).lease_id)
  }
  return engine
}

it('query reads a fleet by model, tenant and engine from a real Prometheus', async (context) => {
  needProgram(context, 'prometheus')
  const engine = await busyEngine()
  prometheus = await Prometheus.start(Number(engine.addresses.metrics!.split(':').at(-1)))
  await prometheus.scrapedTwice()
  const client = new HttpClient(engine)
  const query = (...argv: string[]) => runCommand(['query', ...argv, '--prometheus', prometheus!.url])
  const rows = await until('a hit rate', async () => {
    await client.lookup('fleet-model', promptOf(7, 64), { cache_salt: 'team "7"' })
    const { stdout } = await query('--json')
    const { rows } = JSON.parse(stdout)
    return rows.length > 0 && rows[0].hitRatio !== null ? rows : undefined
  })
  expect(rows[0]).toMatchObject({ labels: { model_name: 'fleet-model' } })
  expect(rows[0].hitRatio).toBeGreaterThan(0.5)
  const tenants = await query('--by', 'tenant')
  expect(tenants.stdout).toContain('fleet-model')
  expect(tenants.stdout).toContain('team "7"')
  expect((await query('--by', 'engine')).stdout).toContain('127.0.0.1:')
  expect((await query('--names')).stdout.split('\n')).toContain('cache_mp_lookup_hit_tokens_total')
  expect((await query('--series', 'cache_mp_l1_usage_ratio')).stdout).toContain(
    'cache_mp_l1_usage_ratio{instance="127.0.0.1:',
  )
  expect((await query('scalar(vector(7))')).stdout).toMatch(/7$/m)
  const bad = await query('sum(')
  expect(bad.code).toBe(2)
  expect(bad.stderr).toMatch(/^kvtier: Prometheus refuses: .*\n$/)
  const top = await runCommand(['top', '--prometheus', prometheus.url, '--once'])
  expect(top.stdout).toContain('fleet-model')
  for (const line of top.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(100)
})

it('top shows one engine without a Prometheus', async () => {
  const engine = await busyEngine()
  const text = await runCommand(['top', '--url', engine.httpUrl, '--once'])
  expect(text.code, text.stderr).toBe(0)
  for (const part of ['hit rate', 'tokens asked for', 'fleet-model', 'team "7"', 'disk'])
    expect(text.stdout).toContain(part)
  for (const line of text.stdout.split('\n')) expect(line.length).toBeLessThanOrEqual(100)
  const { status, rates } = JSON.parse((await runCommand(['top', '--url', engine.httpUrl, '--json'])).stdout)
  expect(status.totals.requestedTokens).toBe(256)
  expect(rates.requestedTokens).toBe(0)
})

it('an empty answer and a refused connection each say what they mean', async () => {
  const refused = await runCommand(['query', '--prometheus', `http://127.0.0.1:${await freePort()}`])
  expect(refused.code).toBe(1)
  expect(refused.stderr).toContain('connection refused: no Prometheus server listens')
  const empty = createServer((_, response) => {
    response.setHeader('content-type', 'application/json')
    response.end('{"status":"success","data":{"resultType":"vector","result":[]}}')
  })
  await new Promise<void>((resolve) => empty.listen(0, '127.0.0.1', resolve))
  const { port } = empty.address() as { port: number }
  const answer = await runCommand(['query', '--prometheus', `http://127.0.0.1:${port}`])
  expect(answer.code).toBe(0)
  expect(answer.stdout).toContain('no traffic has reached an engine yet')
  const notOne = await runCommand(['query', '--prometheus', `http://127.0.0.1:${port}/nothing`, '--by', 'city'])
  expect(notOne.code).toBe(2)
  await new Promise((resolve) => empty.close(resolve))
})

it('query without a server says what is missing', async () => {
  const { code, stderr } = await runCommand(['query'])
  expect(code).toBe(2)
  expect(stderr).toContain('--prometheus is missing')
})
