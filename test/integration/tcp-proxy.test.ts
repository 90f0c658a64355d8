import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { TcpProxy } from '../support/tcp-proxy.ts'
import { until } from '../support/until.ts'

let echo: Server
let proxy: TcpProxy
let client: Socket
let received = 0
let error: NodeJS.ErrnoException | undefined

beforeEach(async () => {
  echo = createServer({ allowHalfOpen: true }, (socket) => socket.on('error', () => undefined).pipe(socket))
  echo.listen(0, '127.0.0.1')
  await once(echo, 'listening')
  proxy = await TcpProxy.start({ host: '127.0.0.1', port: (echo.address() as AddressInfo).port })
  received = 0
  error = undefined
  client = connect(proxy.port, '127.0.0.1')
  client.on('data', (piece) => {
    received += piece.length
  })
  client.on('error', (thrown) => {
    error = thrown
  })
  await once(client, 'connect')
})

afterEach(async () => {
  client.destroy()
  await proxy.close()
  echo.close()
})

// `once` would reject with the error that comes before.
const closed = (socket: Socket) => new Promise<void>((resolve) => socket.once('close', () => resolve()))
const arrived = (bytes: number) => until(`${bytes} bytes`, () => (received >= bytes ? true : undefined))

it('passes everything on, and the end of it', async () => {
  client.end(Buffer.alloc(1_000_000))
  await closed(client)
  expect(received).toBe(1_000_000)
  expect(proxy.passed).toEqual({ toClient: 1_000_000, toServer: 1_000_000 })
  await until('the link is gone', () => (proxy.open === 0 ? true : undefined))
})

it('cuts a connection in mid-stream, after the byte it was told, once', async () => {
  proxy.cutAfter(100_000)
  client.write(Buffer.alloc(1_000_000))
  await closed(client)
  expect(error?.code).toBe('ECONNRESET')
  expect(proxy.passed.toClient).toBe(100_000)
  const second = connect(proxy.port, '127.0.0.1')
  second.end(Buffer.alloc(200_000))
  second.resume()
  await closed(second)
  expect(second.bytesRead).toBe(200_000)
})

it('holds everything back in a black hole, and lets it go afterwards', async () => {
  client.write('before')
  await arrived(6)
  proxy.blackhole()
  client.write('after')
  await until('the bytes reached the proxy', () => (client.writableLength === 0 ? true : undefined))
  expect(proxy.passed.toServer).toBe(6)
  proxy.heal()
  await arrived(11)
})

it('delays without bounding the throughput', async () => {
  proxy.delayMs = 50
  const startMs = performance.now()
  client.write(Buffer.alloc(4_000_000))
  await arrived(4_000_000)
  expect(performance.now() - startMs).toBeGreaterThanOrEqual(100)
})

it('resets what is open, and refuses what comes', async () => {
  client.write('x')
  await arrived(1)
  proxy.cut()
  await closed(client)
  proxy.isRefusing = true
  const second = connect(proxy.port, '127.0.0.1').on('error', () => undefined)
  await closed(second)
  expect(second.bytesRead).toBe(0)
})
