import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { LoopDelay } from './support/loop-delay.ts'
import { median } from './support/pairs.ts'
import { Samples } from './support/samples.ts'

/**
 * A push of 100,000 series by OTLP/HTTP: slices of the service thread, its CPU time, and the data thread's delay.
 *
 * `npm run bench -- otlp-push [--json]`. One thread collects and writes batch after batch, to a receiver on that same
 * thread that takes everything; this thread only waits, as a data thread without work does. A slice is what runs without
 * a pause: the points of one batch and their bytes. CPU time is that thread's, the receiver's included and the
 * compression, on the thread pool, not.
 */
const SERIES = 100_000
const PUSHES = 5
const QUIET_MS = 2_000

interface Pushed {
  readonly cpu: number[]
  readonly slices: number[]
  readonly points: number
  readonly requests: number
  readonly bytes: number
}

async function delayWhile(work: Promise<unknown>): Promise<LoopDelay> {
  const delay = new LoopDelay()
  delay.start()
  await work
  delay.stop()
  return delay
}

async function measure(encoding: 'json' | 'protobuf') {
  const workerData = { series: SERIES + 6_000, encoding } // lines of histograms are more than their series
  const worker = new Worker(new URL('./support/push-thread.ts', import.meta.url), { workerData })
  await once(worker, 'message')
  worker.postMessage(2) // compiles
  await once(worker, 'message')
  const quiet = await delayWhile(sleep(QUIET_MS))
  worker.postMessage(PUSHES)
  const answer = once(worker, 'message') as Promise<[Pushed]>
  const busy = await delayWhile(answer)
  const [{ cpu, slices, points, requests, bytes }] = await answer
  await worker.terminate()
  const samples = new Samples()
  for (const one of slices) samples.push(one)
  return {
    series: points,
    requests,
    mib: Number((bytes / 2 ** 20).toFixed(2)),
    cpu_ms_a_push: Number(median(cpu).toFixed(0)),
    slice_cpu_ms_p50: Number(samples.at(0.5).toFixed(2)),
    slice_cpu_ms_p99: Number(samples.at(0.99).toFixed(2)),
    slice_cpu_ms_worst: Number(samples.at(1).toFixed(2)),
    data_delay_p99_ms: busy.at(0.99),
    without_p99_ms: quiet.at(0.99),
  }
}

const rows = { json: await measure('json'), protobuf: await measure('protobuf') }
if (process.argv.includes('--json')) console.log(JSON.stringify(rows))
else console.table(rows)
