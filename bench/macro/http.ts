import { Pool } from 'undici'
import { bundledModels } from '../../src/tokenizer/bundled-models.ts'
import { EngineHome } from '../../test/support/engine-process.ts'
import { proseText } from '../../test/support/hostile-texts.ts'
import { Child, cpuMsOf } from '../support/child.ts'
import { type Figure, printReport, ratioFigure } from '../support/figures.ts'
import { median } from '../support/pairs.ts'
import { SampleSet } from '../support/samples.ts'

/**
 * The HTTP surfaces of an engine process beside node's bare HTTP server, which gets the same requests and gives answers
 * of the same length: /metrics, /tokenize of 1 kB, /v1/activities and /v1/lookup of 1,024 tokens.
 *
 * 8 connections, one request each at a time, in slices in turn; latency p50 and p99, requests a second, CPU time of the
 * server a request. The clients are this process: on two processors they and the server share them. No text is asked for
 * twice. Words: --json, --pairs N.
 */
const CONNECTIONS = 8
const SLICE_MS = 400
const at = process.argv.indexOf('--pairs')
const PAIRS = at < 0 ? 7 : Number(process.argv[at + 1])

interface Route {
  readonly name: string
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly port: 'http' | 'metrics'
  readonly body: () => string | null
}

interface Side {
  readonly pid: number
  readonly pool: Pool
  readonly path: string
}

let seed = 0
const home = new EngineHome()
const { addresses, httpUrl, metricsUrl } = await home.start()
const bare = new Child('bare-http.ts')
const token = await home.token('admin')
const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` }
const { model } = (await bundledModels())[0]!
const tokens = Array.from({ length: 1024 }, (_, index) => index)
const routes: Route[] = [
  { name: 'GET /metrics', method: 'GET', path: '/metrics', port: 'metrics', body: () => null },
  {
    name: 'POST /tokenize',
    method: 'POST',
    path: '/tokenize',
    port: 'http',
    body: () => JSON.stringify({ model, prompt: proseText(++seed, 1_000) }),
  },
  { name: 'GET /v1/activities', method: 'GET', path: '/v1/activities?size=20', port: 'http', body: () => null },
  {
    name: 'POST /v1/lookup',
    method: 'POST',
    path: '/v1/lookup',
    port: 'http',
    body: () => JSON.stringify({ model: 'bench', tokens, dry_run: true }),
  },
]

async function ask({ pool, path }: Side, { method, body }: Route): Promise<number> {
  const { statusCode, body: answer } = await pool.request({ method, path, headers, body: body() })
  const bytes = (await answer.arrayBuffer()).byteLength
  if (statusCode !== 200) throw new Error(`${method} ${path} was answered with ${statusCode}`)
  return bytes
}

/** @returns requests a second, and CPU microseconds of the server a request. */
async function slice(side: Side, route: Route, samples: SampleSet | null, name: string) {
  let requests = 0
  const cpuBefore = cpuMsOf(side.pid)
  const start = performance.now()
  const client = async () => {
    while (performance.now() - start < SLICE_MS) {
      const sent = performance.now()
      await ask(side, route)
      samples?.push(name, performance.now() - sent)
      requests += 1
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, client))
  const perSecond = (requests * 1000) / (performance.now() - start)
  return { perSecond, cpuUs: ((cpuMsOf(side.pid) - cpuBefore) * 1000) / requests }
}

async function measure(route: Route, floor: Pool) {
  const pool = new Pool(new URL(route.port === 'http' ? httpUrl : metricsUrl).origin, { connections: CONNECTIONS })
  const ours: Side = { pid: addresses.pid, pool, path: route.path }
  const bytes = await ask(ours, route)
  const other: Side = { pid: bare.pid, pool: floor, path: `/?bytes=${bytes}` }
  const samples = new SampleSet()
  const slices: { ours: Awaited<ReturnType<typeof slice>>; bare: Awaited<ReturnType<typeof slice>> }[] = []
  for (let pair = -1; pair < PAIRS; pair += 1) {
    const into = pair < 0 ? null : samples
    const isSwapped = pair % 2 !== 0
    const first = isSwapped ? await slice(other, route, into, 'bare') : await slice(ours, route, into, 'ours')
    const second = isSwapped ? await slice(ours, route, into, 'ours') : await slice(other, route, into, 'bare')
    if (pair >= 0) slices.push(isSwapped ? { ours: second, bare: first } : { ours: first, bare: second })
  }
  await pool.close()
  const us = (name: string, share: number) => Math.round(samples.of(name).at(share) * 1e3)
  const middle = (pick: (one: (typeof slices)[number]) => number) => Math.round(median(slices.map(pick)))
  const row = {
    route: route.name,
    bytes,
    p50Us: us('ours', 0.5),
    p99Us: us('ours', 0.99),
    perSecond: middle((one) => one.ours.perSecond),
    cpuUs: middle((one) => one.ours.cpuUs),
    bareP50Us: us('bare', 0.5),
    bareP99Us: us('bare', 0.99),
    barePerSecond: middle((one) => one.bare.perSecond),
    bareCpuUs: middle((one) => one.bare.cpuUs),
  }
  const rate = median(slices.map((one) => one.ours.perSecond / one.bare.perSecond))
  return { row, figure: ratioFigure(`${route.name}, rate to a bare server`, rate, 'higher') }
}

const floor = new Pool(`http://127.0.0.1:${await bare.line()}`, { connections: CONNECTIONS })
try {
  const asked = { method: 'POST', headers, body: JSON.stringify({ model: 'bench', chunk_bytes: 4096 }) }
  const opened = await fetch(`${httpUrl}/v1/models`, asked)
  if (!opened.ok) throw new Error(await opened.text())
  const rows: object[] = []
  const figures: Figure[] = []
  for (const route of routes) {
    const { row, figure } = await measure(route, floor)
    rows.push(row)
    figures.push(figure)
  }
  printReport({ figures, rows })
} finally {
  await floor.close()
  await bare.stop()
  await home.remove()
}
