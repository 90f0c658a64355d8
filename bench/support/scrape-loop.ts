import { once } from 'node:events'
import { readlinkSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { request } from 'node:http'
import { constants, setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'

// A scraper on a thread of its own. It stands for another machine, so its priority is the lowest. While `flags[0]` is 1 it
// scrapes again and again, with a rest between two, and `flags[1]` is 1 while an answer is awaited. It counts scrapes in
// `flags[2]` and the bytes of the last in `flags[3]`.
const { port, shared, restMs, gzip } = workerData as {
  port: number
  shared: SharedArrayBuffer
  restMs: number
  gzip: boolean
}
const flags = new Int32Array(shared)
const headers = gzip ? { 'accept-encoding': 'gzip' } : {}

async function scrape(): Promise<void> {
  const outgoing = request({ host: '127.0.0.1', port, path: '/metrics', headers, agent: false })
  outgoing.end()
  const [response] = await once(outgoing, 'response')
  let bytes = 0
  for await (const piece of response) bytes += (piece as Buffer).length
  flags[3] = bytes
}

await stat('/') // threads of libuv's pool inherit the priority of whoever comes first
const [, , thread] = readlinkSync('/proc/thread-self').split('/')
setPriority(Number(thread), constants.priority.PRIORITY_LOW)
parentPort!.postMessage('ready')
for (;;) {
  Atomics.wait(flags, 0, 0)
  Atomics.store(flags, 1, 1)
  await scrape()
  Atomics.store(flags, 1, 0)
  Atomics.add(flags, 2, 1)
  await new Promise((resolve) => setTimeout(resolve, restMs))
}
