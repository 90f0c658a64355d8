import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { CATALOGUE } from '../../src/metrics/catalogue.ts'
import { Exposition } from '../../src/metrics/exposition.ts'
import { labelText } from '../../src/metrics/label-text.ts'
import { ProcessMetrics } from '../../src/metrics/process-metrics.ts'
import { MetricsServer } from '../../src/server/metrics/metrics-server.ts'
import { needProgram } from '../support/debian-prometheus.ts'
import { HOSTILE_LABELS, recordEverything } from '../support/full-cells.ts'
import { until } from '../support/until.ts'

interface Result {
  metric: Record<string, string>
  value: [number, string]
}

async function freePort(): Promise<number> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

async function get<Data>(port: number, path: string): Promise<Data> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`)
  const answer = (await response.json()) as { status: string; data: Data; error?: string }
  if (answer.status !== 'success') throw new Error(answer.error)
  return answer.data
}

async function query(port: number, expression: string): Promise<Result[]> {
  const data = await get<{ result: Result[] }>(port, `/api/v1/query?query=${encodeURIComponent(expression)}`)
  return data.result
}

/** A real Prometheus that scrapes a port every 250 ms. */
async function startPrometheus(targetPort: number) {
  const folder = mkdtempSync(join(tmpdir(), 'kvtier-prometheus-'))
  const config = join(folder, 'prometheus.yml')
  const job = `{job_name: engine, static_configs: [{targets: ['127.0.0.1:${targetPort}']}]}`
  writeFileSync(config, `global: {scrape_interval: 250ms, scrape_timeout: 250ms}\nscrape_configs: [${job}]\n`)
  const port = await freePort()
  const flags = [
    `--config.file=${config}`,
    `--storage.tsdb.path=${folder}/data`,
    `--web.listen-address=127.0.0.1:${port}`,
  ]
  const child = spawn('prometheus', [...flags, '--log.level=warn'], { stdio: 'ignore' })
  const exited = once(child, 'exit')
  return {
    port,
    stop: async () => {
      child.kill('SIGTERM')
      await exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

it('a real Prometheus scrapes every metric and answers the hit-rate query', async (context) => {
  needProgram(context, 'prometheus')
  const { cells, reader } = recordEverything()
  const tenants = HOSTILE_LABELS.slice(0, 3).map((label) => cells.tenants.tenantOf(`m${label}`, label))
  // Three of four tokens hit at every moment, so that the extrapolation of rate() leaves the ratio as it is.
  const askFor = (tokens: number) => {
    for (const tenant of tenants) {
      cells.engineTenants.add(tenant, 'requestedTokens', tokens)
      cells.engineTenants.set(tenant, 'hitTokens', 0.75 * cells.engineTenants.get(tenant, 'requestedTokens'))
    }
  }
  askFor(1_000)
  const exposition = new Exposition(reader, new ProcessMetrics())
  const server = new MetricsServer({
    host: '127.0.0.1',
    port: 0,
    render: (format) => exposition.render(format),
    onError: (error) => {
      throw error
    },
  })
  const { port: targetPort } = await server.listen()
  const prometheus = await startPrometheus(targetPort)
  try {
    const { port } = prometheus
    const scraped = () => query(port, 'count_over_time(up{job="engine"}[5m]) >= 2')
    await until('two scrapes', async () => ((await scraped()).length > 0 ? true : undefined))
    askFor(4_000)
    const hitRate =
      'sum(rate(cache_mp_lookup_hit_tokens_total[5m])) / sum(rate(cache_mp_lookup_requested_tokens_total[5m]))'
    const rate = await until('a hit rate', async () => {
      const value = Number((await query(port, hitRate))[0]?.value[1])
      return Number.isNaN(value) ? undefined : value
    })
    expect(rate).toBeCloseTo(0.75, 6)
    const byModel = await query(port, hitRate.replaceAll('sum(', 'sum by (model_name) ('))
    expect(byModel.filter(({ value }) => Number(value[1]) > 0)).toHaveLength(3)

    expect((await query(port, 'up{job="engine"}')).map(({ value }) => value[1])).toEqual(['1'])
    const names = await get<string[]>(port, '/api/v1/label/__name__/values')
    const missing = CATALOGUE.filter(({ name, type }) => !names.includes(type === 'histogram' ? `${name}_count` : name))
    expect(missing).toEqual([])
    const salts = await get<string[]>(port, '/api/v1/label/cache_salt/values')
    // An empty label value is no label to Prometheus; every other one arrives as it was.
    expect(HOSTILE_LABELS.map(labelText).filter((text) => text !== '' && !salts.includes(text))).toEqual([])
  } finally {
    await prometheus.stop()
    await server.close()
  }
})
