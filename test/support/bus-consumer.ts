import { parentPort, workerData } from 'node:worker_threads'
import { EventBus } from '../../src/events/bus.ts'

// A thread that drains a bus until it has seen the event with tenant -1, and checks the order on the way.
const { buffer, batch } = workerData as { buffer: SharedArrayBuffer; batch: number }
const bus = EventBus.attach(buffer)
let delivered = 0
let last = -1
let broken = 0
let isDone = false

while (!isDone) {
  delivered += bus.drain(batch, (records, at) => {
    const [typeId, tenant, timeMs, a, b, c] = [...records.subarray(at, at + 6)] as [
      number,
      number,
      number,
      number,
      number,
      number,
    ]
    if (tenant === -1) {
      isDone = true
      return
    }
    if (a <= last || b !== a * 2 || c !== a + 0.5 || timeMs !== a + 1 || typeId !== a % 3) broken += 1
    last = a
  })
}
parentPort!.postMessage({ delivered: delivered - 1, broken, last })
