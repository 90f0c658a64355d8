import { parentPort, workerData } from 'node:worker_threads'
import { EVENT_A, EVENT_B, EVENT_C, EVENT_TENANT, EVENT_TIME_MS, EVENT_TYPE, EventBus } from '../../src/events/bus.ts'

// A thread that drains a bus until it has seen the event with tenant -1, and checks the order on the way.
const { buffer, batch } = workerData as { buffer: SharedArrayBuffer; batch: number }
const bus = EventBus.attach(buffer)
let delivered = 0
let last = -1
let broken = 0
let isDone = false

while (!isDone) {
  delivered += bus.drain(batch, (records, at) => {
    if (records[at + EVENT_TENANT] === -1) {
      isDone = true
      return
    }
    const a = records[at + EVENT_A]!
    const isPayload = records[at + EVENT_B] === a * 2 && records[at + EVENT_C] === a + 0.5
    const isHead = records[at + EVENT_TIME_MS] === a + 1 && records[at + EVENT_TYPE] === a % 3
    if (a <= last || !isPayload || !isHead) broken += 1
    last = a
  })
}
parentPort!.postMessage({ delivered: delivered - 1, broken, last })
