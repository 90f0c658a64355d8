import { once } from 'node:events'
import { request } from 'node:http'
import { parentPort, workerData } from 'node:worker_threads'

// A scraper on a thread of its own: while `flags[0]` is 1 it scrapes again and again, with a rest between two, and
// `flags[1]` is 1 while an answer is awaited. It counts scrapes in `flags[2]` and the bytes of the last in `flags[3]`.
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

parentPort!.postMessage('ready')
for (;;) {
  Atomics.wait(flags, 0, 0)
  Atomics.store(flags, 1, 1)
  await scrape()
  Atomics.store(flags, 1, 0)
  Atomics.add(flags, 2, 1)
  await new Promise((resolve) => setTimeout(resolve, restMs))
}
