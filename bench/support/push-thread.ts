import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { parentPort, workerData } from 'node:worker_threads'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { SystemClock } from '../../src/core/clock.ts'
import { hrTimeOf, otlpBatches } from '../../src/metrics/otlp.ts'
import { type ENCODINGS, MetricsPush } from '../../src/server/push/metrics-push.ts'
import { OtlpSender } from '../../src/server/push/otlp-sender.ts'
import { fullMetrics } from './full-metrics.ts'

// A service thread that pushes many series again and again, as `app/metrics-service` does, to a receiver on the same
// thread's loopback that takes everything. Message in: how many pushes; message out: what they took.
const { series, encoding } = workerData as { series: number; encoding: keyof typeof ENCODINGS }
const clock = new SystemClock()
const { reader } = fullMetrics(series)
const cpuMs = (used: NodeJS.CpuUsage) => (used.user + used.system) / 1_000

let received = 0
const receiver = createServer(async (request, response) => {
  for await (const piece of request) received += (piece as Buffer).length
  response.end()
})
receiver.listen(0, '127.0.0.1')
await once(receiver, 'listening')
const endpoint = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
const sender = new OtlpSender({ endpoint, headers: {}, compression: 'gzip', timeoutMs: 10_000, tls: {} })

let slice = process.threadCpuUsage()
const slices: number[] = []
let points = 0
let requests = 0

async function* collect() {
  const times = { start: hrTimeOf(0), end: hrTimeOf(clock.wallMs()) }
  slice = process.threadCpuUsage()
  for (const batch of otlpBatches(reader.take(), times)) {
    points += batch.reduce((sum, { dataPoints }) => sum + dataPoints.length, 0)
    yield batch
    await nextTurn()
    slice = process.threadCpuUsage()
  }
}

async function pushOnce(): Promise<number> {
  const push = new MetricsPush({
    sender: {
      send: (path, type, body, now) => {
        slices.push(cpuMs(process.threadCpuUsage(slice))) // collected and written, nothing awaited in between
        requests += 1
        return sender.send(path, type, body, now)
      },
    },
    encoding,
    resource: resourceFromAttributes({ 'service.name': 'kvtier' }),
    scope: { name: 'kvtier', version: '1' },
    intervalMs: 60_000,
    clock,
    random: Math.random,
    log: { warn: (_facts, message) => console.error(message), info: () => undefined },
    collect,
  })
  const start = process.threadCpuUsage()
  await push.close(60_000)
  if (push.status().failedPushes > 0) throw new Error('a push failed')
  return cpuMs(process.threadCpuUsage(start))
}

parentPort!.on('message', async (pushes: number) => {
  points = requests = received = slices.length = 0
  const cpu: number[] = []
  for (let push = 0; push < pushes; push += 1) cpu.push(await pushOnce())
  parentPort!.postMessage({
    cpu,
    slices,
    points: points / pushes,
    requests: requests / pushes,
    bytes: received / pushes,
  })
})
parentPort!.postMessage('ready')
