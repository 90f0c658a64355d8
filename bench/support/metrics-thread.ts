import { parentPort } from 'node:worker_threads'
import { MetricsService } from '../../src/app/metrics-service.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { MetricCells, type MetricHandles } from '../../src/metrics/cells.ts'
import { ProcessMetrics } from '../../src/metrics/process-metrics.ts'

// The metrics of one engine after the other on a service thread: drains their event bus as `serve` does.
// Messages: handles of the next engine's cells (it answers 'ready'), or null (it records the rest, answers 'done').
const processMetrics = new ProcessMetrics() // one: each watches the thread to its end
let service: MetricsService | null = null

parentPort!.on('message', async (handles: MetricHandles | null) => {
  if (handles === null) {
    await service?.close()
    service = null
    parentPort!.postMessage('done')
    return
  }
  service = new MetricsService({
    cells: MetricCells.attach(handles),
    clock: new SystemClock(),
    facts: {},
    process: processMetrics,
    onError: (where, error) => {
      throw new Error(where, { cause: error })
    },
  })
  service.start()
  parentPort!.postMessage('ready')
})
