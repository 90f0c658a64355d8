import { parentPort, workerData } from 'node:worker_threads'
import { type Clock, SystemClock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { SupervisedLoop } from '../core/supervised-loop.ts'
import { LOOPS } from '../events/counters.ts'
import { MetricCells, type MetricHandles } from '../metrics/cells.ts'
import { Exposition } from '../metrics/exposition.ts'
import { Recorder } from '../metrics/recorder.ts'
import { SnapshotReader } from '../metrics/snapshot.ts'
import { MetricsServer } from '../server/metrics/metrics-server.ts'
import type { MetricsAnswer } from './replay-metrics.ts'

// The metrics thread of a replay: drains the event bus and serves GET /metrics on loopback.

const DRAIN_MS = 20
const DRAIN_EVENTS = 65_536

const { handles, now, port } = workerData as { handles: MetricHandles; now: SharedArrayBuffer; port: number }
const cells = MetricCells.attach(handles)
const recorder = new Recorder(cells)
const nowMs = new Float64Array(now)
const wall = new SystemClock()
const clock: Clock = {
  nowMs: () => nowMs[0]!,
  wallMs: () => wall.wallMs(),
  schedule: (delayMs, callback) => wall.schedule(delayMs, callback),
}
const exposition = new Exposition(new SnapshotReader({ cells, recorder, clock, facts: {} }), null)
const server = new MetricsServer({
  host: '127.0.0.1',
  port,
  render: (format) => exposition.render(format),
  onError: (error) => console.error(`kvtier: metrics: ${error}`),
})
const drainLoop = new SupervisedLoop({
  name: 'event_bus',
  intervalMs: DRAIN_MS,
  clock: wall,
  cycle: () => void recorder.drain(DRAIN_EVENTS),
  onError: (loop, error) => console.error(`kvtier: ${loop}: ${error}`),
  onBeat: () => cells.loops.set(LOOPS.indexOf('event_bus'), 'lastBeatMs', nowMs[0]!),
})

try {
  const { port: listening } = await server.listen()
  drainLoop.start()
  tell({ kind: 'listening', port: listening })
} catch (error) {
  if (!(error instanceof CacheError)) throw error
  tell({ kind: 'refused', code: error.code, message: error.message })
}

function tell(answer: MetricsAnswer): void {
  parentPort!.postMessage(answer)
}
