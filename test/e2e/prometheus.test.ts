import { expect, it } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { CATALOGUE } from '../../src/metrics/catalogue.ts'
import { Exposition } from '../../src/metrics/exposition.ts'
import { labelText } from '../../src/metrics/label-text.ts'
import { ProcessMetrics } from '../../src/metrics/process-metrics.ts'
import { MetricsServer } from '../../src/server/metrics/metrics-server.ts'
import { HIT_RATE_QUERY, needProgram, Prometheus } from '../support/debian-prometheus.ts'
import { HOSTILE_LABELS, recordEverything } from '../support/full-cells.ts'

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
    clock: new SystemClock(),
    host: '127.0.0.1',
    port: 0,
    render: (format) => exposition.render(format),
    onError: (error) => {
      throw error
    },
  })
  const prometheus = await Prometheus.start((await server.listen()).port)
  try {
    await prometheus.scrapedTwice()
    askFor(4_000)
    expect(await prometheus.value(HIT_RATE_QUERY)).toBeCloseTo(0.75, 6)
    const byModel = await prometheus.query(HIT_RATE_QUERY.replaceAll('sum(', 'sum by (model_name) ('))
    expect(byModel.filter(({ value }) => Number(value[1]) > 0)).toHaveLength(3)

    expect((await prometheus.query('up{job="engine"}')).map(({ value }) => value[1])).toEqual(['1'])
    const names = await prometheus.get<string[]>('/api/v1/label/__name__/values')
    const missing = CATALOGUE.filter(({ name, type }) => !names.includes(type === 'histogram' ? `${name}_count` : name))
    expect(missing).toEqual([])
    const salts = await prometheus.get<string[]>('/api/v1/label/cache_salt/values')
    // An empty label value is no label to Prometheus; every other one arrives as it was.
    expect(HOSTILE_LABELS.map(labelText).filter((text) => text !== '' && !salts.includes(text))).toEqual([])
  } finally {
    await prometheus.stop()
    await server.close()
  }
})
