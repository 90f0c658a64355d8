import { parentPort, workerData } from 'node:worker_threads'
import { EVENT_TYPE, EventBus } from '../../src/events/bus.ts'

// A thread that drains a bus far slower than it fills: a few events, then a rest. Once `stop[0]` is set it drains what is
// left and says how many events of each type it was told.
const { buffer, types, stop } = workerData as { buffer: SharedArrayBuffer; types: number; stop: SharedArrayBuffer }
const bus = EventBus.attach(buffer)
const isStopped = new Int32Array(stop)
const delivered = new Array<number>(types).fill(0)
let deepest = 0

const drain = (maxEvents: number) => {
  deepest = Math.max(deepest, bus.depth())
  return bus.drain(maxEvents, (records, at) => {
    delivered[records[at + EVENT_TYPE]!]! += 1
  })
}

while (Atomics.load(isStopped, 0) === 0) {
  drain(16)
  Atomics.wait(isStopped, 0, 0, 1)
}
while (drain(64) > 0);
parentPort!.postMessage({ delivered, deepest })
