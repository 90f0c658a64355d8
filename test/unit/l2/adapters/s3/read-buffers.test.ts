import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'undici'
import { describe, expect, it } from 'vitest'
import { exchange } from '../../../../../src/l2/adapters/s3/exchange.ts'
import { ReadBuffers } from '../../../../../src/l2/adapters/s3/read-buffers.ts'
import { NEVER } from '../../../../support/l2-objects.ts'
import { random } from '../../../../support/random.ts'

describe('read buffers', () => {
  it('come back when all of a read was taken, and only then', () => {
    const buffers = new ReadBuffers()
    const first = buffers.onread.buffer()
    const pushed: Uint8Array[] = []
    const socket = { push: (piece: Uint8Array) => pushed.push(piece) > 0 }
    buffers.onread.callback.call(socket as never, 100, first)
    buffers.recycle(pushed[0]!.subarray(0, 99))
    buffers.recycle(pushed[0]!.subarray(1))
    buffers.recycle(new Uint8Array(100))
    const second = buffers.onread.buffer()
    expect(second.buffer).not.toBe(first.buffer)
    buffers.recycle(pushed[0]!)
    buffers.recycle(pushed[0]!) // twice is once
    expect(buffers.onread.buffer().buffer).toBe(first.buffer)
    expect(buffers.onread.buffer().buffer).not.toBe(first.buffer)
  })

  // Oracle: what the server sent, over many answers at a time, in pieces of any length.
  it.each([1, 2, 3])('never mix the answers of connections (seed %i)', async (seed) => {
    const next = random(seed)
    const bodies = Array.from({ length: 60 }, (_, at) =>
      Buffer.alloc(next(3) === 0 ? next(200) : next(2_000_000), at + 1),
    )
    const server = createServer(async ({ url = '' }, response) => {
      const body = bodies[Number(url.slice(1))]!
      response.writeHead(200, {
        'content-length': body.length,
        'x-long': 'h'.repeat(next(4_000)),
        'x-number': url.slice(1),
      })
      for (let at = 0; at < body.length; ) {
        const end = Math.min(body.length, at + 1 + next(300_000))
        if (!response.write(body.subarray(at, end))) await once(response, 'drain')
        at = end
      }
      response.end()
    })
    server.keepAliveTimeout = 0 // on a busy machine a connection waits for longer than it would be kept
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const buffers = new ReadBuffers()
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const pool = new Pool(origin, { connections: 8, connect: { onread: buffers.onread } as never })
    const recycle = (piece: Uint8Array) => buffers.recycle(piece)
    await Promise.all(
      bodies.map(async (body, at) => {
        const pieces: Buffer[] = []
        const sink = { start: () => undefined, take: (piece: Uint8Array) => pieces.push(Buffer.from(piece)) > 0 }
        const request = { method: 'GET', path: `/${at}`, headers: {}, pieces: [] }
        const { headers } = await exchange({ pool, recycle }, request, sink, NEVER)
        expect(headers['x-number']).toBe(`${at}`)
        expect(Buffer.concat(pieces).equals(body)).toBe(true)
      }),
    )
    await pool.close()
    server.close()
  })
})
