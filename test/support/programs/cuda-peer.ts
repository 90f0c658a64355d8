// An inference process as the engine sees it: owns a pool of GPU memory on the stand-in driver and shares it.
// Usage: cuda-peer.ts LIBRARY POOL_BYTES; prints its IPC handle in hexadecimal, then answers lines of stdin:
// `fill OFFSET BYTES VALUE` -> `done`; `read OFFSET BYTES` -> the value all those bytes have, or `mixed`.
import { createInterface } from 'node:readline'
import { CudaDevice } from '../../../src/l0/cuda-device.ts'
import type { Direction } from '../../../src/l0/device.ts'
import { probeCuda } from '../../../src/native/cuda.ts'

const [library = '', poolBytes = '0'] = process.argv.slice(2)
const driver = probeCuda(library)
if (!driver.available) throw new Error(driver.reason)
const device = new CudaDevice({ library, ordinal: 0 }, driver)
const host = new Uint8Array(Number(poolBytes))
device.open(host.length, host)
const stream = device.createStream()

function copy(direction: Direction, offset: number, bytes: number): Promise<void> {
  const at = Float64Array.of(offset)
  const batch = { direction, count: 1, deviceOffsets: at, hostOffsets: at, lengths: Float64Array.of(bytes) }
  return new Promise((resolve, reject) => {
    device.submit(stream, batch, (_, error) => (error === null ? resolve() : reject(error)))
  })
}

async function answer(line: string): Promise<string> {
  const [verb, ...numbers] = line.split(' ')
  const [offset = 0, bytes = 0, value = 0] = numbers.map(Number)
  if (verb === 'fill') {
    host.fill(value, offset, offset + bytes)
    await copy('load', offset, bytes)
    return 'done'
  }
  await copy('store', offset, bytes)
  const first = host[offset]!
  return host.subarray(offset, offset + bytes).every((byte) => byte === first) ? String(first) : 'mixed'
}

process.stdout.write(`${Buffer.from(device.exportPool()).toString('hex')}\n`)
for await (const line of createInterface({ input: process.stdin })) process.stdout.write(`${await answer(line)}\n`)
device.close()
