import { readlinkSync } from 'node:fs'
import { stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { constants, setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'

// A scraper on a thread of its own. It stands for another machine, so its priority is the lowest, and it reads into one
// buffer again and again: memory for each piece of an answer would have V8 collect its heap, with threads that have the
// process's usual priority. While `flags[0]` is 1 it scrapes again and again, with a rest between two, and `flags[1]` is 1
// while an answer is awaited. It counts scrapes in `flags[2]` and the bytes of the last, its head included, in `flags[3]`.
const { port, shared, restMs, gzip } = workerData as {
  port: number
  shared: SharedArrayBuffer
  restMs: number
  gzip: boolean
}
const READ_BYTES = 64 * 1024
const flags = new Int32Array(shared)
const buffer = Buffer.alloc(READ_BYTES)
const encoding = gzip ? 'accept-encoding: gzip\r\n' : ''
const question = `GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n${encoding}connection: close\r\n\r\n`

function scrape(): Promise<void> {
  return new Promise((resolve, reject) => {
    let bytes = 0
    const onread = {
      buffer,
      callback: (read: number) => {
        if (bytes === 0 && !buffer.toString('latin1', 0, 15).startsWith('HTTP/1.1 200')) reject(new Error('no answer'))
        bytes += read
        return true
      },
    }
    const socket = connect({ host: '127.0.0.1', port, onread }, () => socket.write(question))
    socket.once('error', reject)
    socket.once('close', () => {
      flags[3] = bytes
      resolve()
    })
  })
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
