import { parentPort, workerData } from 'node:worker_threads'
import { MetricsService } from '../app/metrics-service.ts'
import { type Clock, SystemClock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { MetricCells, type MetricHandles } from '../metrics/cells.ts'
import type { MetricsAnswer } from './replay-metrics.ts'

// The metrics thread of a replay: drains the event bus and serves GET /metrics on loopback.

interface ReplayMetricsData {
  readonly handles: MetricHandles
  /** Milliseconds of the replay's virtual clock; null = it runs by the machine's. */
  readonly virtualNow: SharedArrayBuffer | null
  readonly port: number
}

const { handles, virtualNow, port } = workerData as ReplayMetricsData
const clock = virtualNow === null ? new SystemClock() : clockOf(new Float64Array(virtualNow))
const service = new MetricsService({
  cells: MetricCells.attach(handles),
  clock,
  facts: {},
  onError: (where, error) => console.error(`kvtier: ${where}: ${error}`),
})

try {
  const address = await service.listen({ enabled: true, host: '127.0.0.1', port })
  service.start()
  tell({ kind: 'listening', address })
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

function tell(answer: MetricsAnswer): void {
  parentPort!.postMessage(answer)
}
