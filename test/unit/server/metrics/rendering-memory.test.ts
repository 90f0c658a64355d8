import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { gunzipSync } from 'node:zlib'
import { afterEach, expect, it } from 'vitest'
import { SystemClock } from '../../../../src/core/clock.ts'
import { Rendering } from '../../../../src/metrics/exposition.ts'
import { TextBlocks } from '../../../../src/metrics/text-blocks.ts'
import { MetricsServer } from '../../../../src/server/metrics/metrics-server.ts'
import { until } from '../../../support/until.ts'

/** More than the sockets between two ends hold, so that an answer waits for its reader. */
const BLOCKS = 16
const FIRST_LETTER = 97

const open: { server: MetricsServer; sockets: Socket[] }[] = []
afterEach(async () => {
  for (const { server, sockets } of open.splice(0)) {
    for (const socket of sockets) socket.destroy()
    await server.close()
  }
})

/** Tells which memory came back. */
class WatchedBlocks extends TextBlocks {
  readonly given: Set<unknown>[] = []

  override give(pieces: readonly Buffer[]): void {
    this.given.push(new Set(pieces.map(({ buffer }) => buffer)))
    super.give(pieces)
  }
}

/** A server whose nth rendering is 16 MiB of the nth letter, in blocks that are used again. */
async function serve() {
  const blocks = new WatchedBlocks()
  const used: Set<unknown>[] = []
  const render = async () => {
    const letter = FIRST_LETTER + used.length
    const pieces = Array.from({ length: BLOCKS }, () => blocks.take().fill(letter))
    used.push(new Set(pieces.map(({ buffer }) => buffer)))
    return new Rendering(pieces, blocks)
  }
  const onError = (error: unknown) => {
    throw error
  }
  const server = new MetricsServer({ clock: new SystemClock(), host: '127.0.0.1', port: 0, render, onError })
  const sockets: Socket[] = []
  open.push({ server, sockets })
  const { port } = await server.listen()
  const ask = async (headers = '') => {
    const socket = connect(port, '127.0.0.1').pause()
    sockets.push(socket)
    await once(socket, 'connect')
    socket.write(`GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${headers}\r\n`)
    return socket
  }
  return { ask, used, given: blocks.given }
}

/** The body of an answer, read to its end. */
async function bodyOf(socket: Socket): Promise<Buffer> {
  const pieces: Buffer[] = []
  for await (const piece of socket) pieces.push(piece as Buffer)
  const answer = Buffer.concat(pieces)
  return answer.subarray(answer.indexOf('\r\n\r\n') + 4)
}

/** Which rendering a body is, whole and unmixed; -1 = none. */
function numberOf(body: Buffer): number {
  const isWhole = body.equals(Buffer.alloc(BLOCKS * 2 ** 20, body[0]))
  return isWhole ? body[0]! - FIRST_LETTER : -1
}

it('renders into memory whose answer has left, and never into what a slow client still waits for', async () => {
  const { ask, used } = await serve()
  const slow = await ask()
  await once(slow, 'readable') // its rendering is the first one
  for (let at = 1; at < 6; at += 1) expect(numberOf(await bodyOf(await ask()))).toBe(at)
  expect(used.slice(2).every((blocks) => blocks.isSubsetOf(used[1]!))).toBe(true)
  expect(used.slice(1).every((blocks) => blocks.isDisjointFrom(used[0]!))).toBe(true)
  expect(numberOf(await bodyOf(slow))).toBe(0)
})

it('takes the memory of an answer back whose client went away in the middle', async () => {
  const { ask, used, given } = await serve()
  const gone = await ask()
  await once(gone, 'readable')
  gone.destroy()
  await until('its memory is back', () => given[0])
  expect(given[0]!.isSubsetOf(used[0]!)).toBe(true)
  expect(numberOf(await bodyOf(await ask()))).toBe(1)
  expect(used[1]!.isSubsetOf(used[0]!)).toBe(true)
})

it('sends compressed answers of its own bytes while others are rendered', async () => {
  const { ask } = await serve()
  const compressed = ask('accept-encoding: gzip\r\n')
  const [first, second] = await Promise.all([compressed.then(bodyOf), ask().then(bodyOf)])
  expect([gunzipSync(first), second].map(numberOf).sort()).toEqual([0, 1])
})
