import { parentPort, workerData } from 'node:worker_threads'
import { type Clock, SystemClock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { MetricCells } from '../metrics/cells.ts'
import { MetricsService } from './metrics-service.ts'
import type { ReplayMetricsData, ReplayMetricsMessage } from './replay-metrics.ts'
import { yieldToOtherThreads } from './thread-priority.ts'

// Entry of the metrics thread of a replay: drains the event bus and serves GET /metrics on loopback.
const { handles, virtualNow, port } = workerData as ReplayMetricsData
const service = new MetricsService({
  cells: MetricCells.attach(handles),
  clock: virtualNow === null ? new SystemClock() : clockOf(new Float64Array(virtualNow)),
  facts: {},
  onError: (where, error) => tell({ kind: 'failed', where, message: String(error) }),
})

try {
  const address = await service.listen({
    enabled: true,
    host: '127.0.0.1',
    port,
    tokenFile: '',
    certFile: '',
    keyFile: '',
  })
  tell({ kind: 'listening', address })
  service.start()
  await yieldToOtherThreads()
} catch (error) {
  if (!(error instanceof CacheError)) throw error
  tell({ kind: 'refused', code: error.code, message: error.message })
}

function clockOf(nowMs: Float64Array): Clock {
  const wall = new SystemClock()
  return {
    nowMs: () => nowMs[0]!,
    wallMs: () => wall.wallMs(),
    schedule: (delayMs, callback) => wall.schedule(delayMs, callback),
  }
}

function tell(message: ReplayMetricsMessage): void {
  parentPort!.postMessage(message)
}
