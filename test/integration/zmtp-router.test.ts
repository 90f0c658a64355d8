import { once } from 'node:events'
import { type Socket, connect as tcp } from 'node:net'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Dealer as TheirDealer } from 'zeromq'
import { Dealer } from '../../src/client/dealer.ts'
import { ManualClock } from '../../src/core/clock.ts'
import { pingCommand, readyCommand } from '../../src/protocol/zmtp/commands.ts'
import { GREETING } from '../../src/protocol/zmtp/greeting.ts'
import { MpRouter } from '../../src/server/mp/router.ts'
import { until } from '../support/until.ts'
import { bytesOf, MIB, READY_OF_DEALER } from '../support/zmtp.ts'

const CONNECTIONS = 8
const SLOW_MESSAGE = 256 * 1024

let clock: ManualClock
let router: MpRouter
let address: string
let dropped: number
let refused: string[]
/** Peer and frames, as text. */
let got: (readonly [string, ...string[]])[]
const open: { close(): unknown }[] = []

beforeEach(async () => {
  clock = new ManualClock()
  dropped = 0
  refused = []
  got = []
  router = new MpRouter({
    clock,
    connectionsMax: CONNECTIONS,
    onMessage: (peer, frames) => void got.push([peer, ...frames.map(String)]),
    onDropped: () => {
      dropped += 1
    },
    onRefused: (why, wasReady) => void refused.push(`${why}${wasReady ? ', later' : ''}`),
    onError: (error) => {
      throw error
    },
  })
  address = await router.listen('127.0.0.1', 0)
})
afterEach(() => {
  for (const one of open.splice(0)) one.close()
  router.close()
})

function dealer(identity = ''): { dealer: Dealer; got: string[] } {
  const answers: string[] = []
  const one = new Dealer(address, (frames) => answers.push(frames.map(String).join()), Buffer.from(identity))
  open.push(one)
  return { dealer: one, got: answers }
}

function raw(...bytes: Uint8Array[]): Socket {
  const [host, port] = address.split(':')
  const socket = tcp({ host: host!, port: Number(port), noDelay: true })
  open.push({ close: () => socket.destroy() })
  socket.on('error', () => {})
  socket.write(Buffer.concat(bytes))
  return socket
}

const text = (...frames: string[]) => frames.map((frame) => Buffer.from(frame))
const closed = (socket: Socket) => until('the connection is closed', () => socket.closed || undefined)
const heard = (what: string) => until(`"${what}" comes`, () => got.find(([, ...frames]) => frames.join() === what)?.[0])

it('gives peers without an identity different ones, and answers each', async () => {
  const [a, b] = [dealer(), dealer()]
  a.dealer.send(text('from a'))
  b.dealer.send(text('from b'))
  const [peerOfA, peerOfB] = [await heard('from a'), await heard('from b')]
  expect(peerOfA).not.toBe(peerOfB)
  expect([peerOfA[0], peerOfB[0]]).toEqual(['\0', '\0'])
  router.send(peerOfA, text('to a'))
  router.send(peerOfB, text('to', 'b'))
  await until('answers', () => (a.got.length === 1 && b.got.length === 1) || undefined)
  expect([a.got, b.got]).toEqual([['to a'], ['to,b']])
})

it.each(['ours', 'of libzmq'])(
  'lets an identity stay with whoever has it; the next one has it after that (%s)',
  async (whose) => {
    const first = dealer('me')
    first.dealer.send(text('first'))
    expect(await heard('first')).toBe('me')
    if (whose === 'ours') dealer('me').dealer.send(text('second'))
    else {
      const second = new TheirDealer({ linger: 0, routingId: 'me' })
      open.push(second)
      second.connect(`tcp://${address}`)
      await second.send('second')
    }
    await until('it is refused twice', () => refused.length >= 2 || undefined)
    expect(new Set(refused)).toEqual(new Set(['taken']))
    expect(got.map(([, frame]) => frame)).toEqual(['first'])
    router.send('me', text('for the first'))
    await until('the answer', () => first.got.length > 0 || undefined)
    first.dealer.close()
    expect(await heard('second')).toBe('me')
  },
)

it('drops the answers of a peer that does not take them, counts them, and serves the others', async () => {
  const slow = raw(GREETING, READY_OF_DEALER('slow'), bytesOf(text('hello')))
  slow.pause()
  await heard('hello')
  const message = [Buffer.alloc(SLOW_MESSAGE)]
  let sent = 0
  // The kernel takes some megabytes, and the router keeps 16 MiB.
  for (; dropped === 0 && sent < 1_000; sent += 1) {
    router.send('slow', message)
    await new Promise(setImmediate)
  }
  expect(dropped).toBe(1)
  expect(sent * SLOW_MESSAGE).toBeGreaterThan(16 * MIB)
  const other = dealer()
  other.dealer.send(text('other'))
  router.send(await heard('other'), text('served'))
  await until('the answer', () => other.got.includes('served') || undefined)
  let bytes = 0
  slow.on('data', (chunk) => {
    bytes += chunk.length
  })
  slow.resume()
  await until('the slow one has all that was kept', () => bytes >= (sent - 1) * SLOW_MESSAGE || undefined)
})

it('loses answers for a peer that is gone', async () => {
  const gone = raw(GREETING, READY_OF_DEALER('gone'), bytesOf(text('hello')))
  await heard('hello')
  gone.resetAndDestroy()
  const other = dealer('other')
  other.dealer.send(text('next'))
  await heard('next')
  router.send('gone', text('lost'))
  router.send('nobody', text('lost'))
  expect([dropped, refused]).toEqual([0, []])
})

it('survives connections that are reset in the middle of a message', async () => {
  const half = bytesOf([Buffer.alloc(MIB)]).subarray(0, MIB / 2)
  for (let turn = 0; turn < 20; turn += 1) {
    const socket = raw(GREETING, READY_OF_DEALER(), half)
    await once(socket, 'connect')
    socket.resetAndDestroy()
  }
  const other = dealer()
  other.dealer.send(text('served'))
  await heard('served')
  expect(got).toHaveLength(1)
})

it('refuses what is no ZMTP 3 with NULL, says so where the protocol can, and counts it', async () => {
  const curve = Buffer.from(GREETING)
  curve.write('CURVE', 12)
  const told = raw(curve)
  let words = ''
  told.on('data', (chunk) => {
    words += chunk.toString('latin1')
  })
  for (const socket of [told, raw(Buffer.from('GET / HTTP/1.1\r\n\r\n')), raw(Buffer.of(1, 0))]) {
    socket.resume()
    await closed(socket)
  }
  expect(words).toContain('ERROR')
  expect(words).toContain('NULL')
  expect([...refused].sort()).toEqual(['mechanism', 'not_zmtp', 'old_version'])
})

it('disconnects a peer whose message is too long, before it comes', async () => {
  const claim = Buffer.from([0x02, 0, 0, 0, 0, 0x40, 0, 0, 0])
  const socket = raw(GREETING, READY_OF_DEALER(), claim)
  socket.resume()
  await closed(socket)
  expect(refused).toEqual(['too_long, later'])
})

it('closes connections beyond its number', async () => {
  const sockets = Array.from({ length: CONNECTIONS }, () => raw(GREETING, READY_OF_DEALER()))
  for (const socket of sockets) socket.resume()
  await until('all are connected', () => sockets.every((socket) => socket.bytesRead > GREETING.length) || undefined)
  const socket = raw(GREETING)
  socket.resume()
  await closed(socket)
  expect(refused).toEqual(['too_many'])
})

it('closes connections whose handshake takes longer than half a minute, and those silent for longer than they said', async () => {
  const [idle, mute, living] = [
    raw(GREETING.subarray(0, 20)),
    raw(GREETING, readyCommand('DEALER', Buffer.from('mute')), pingCommand(5_000, Buffer.alloc(0)), bytesOf(text('m'))),
    raw(GREETING, READY_OF_DEALER('living'), bytesOf(text('l'))),
  ]
  for (const socket of [idle, mute, living]) socket.resume()
  await heard('m')
  await heard('l')
  await until('a greeting', () => idle.bytesRead > 0 || undefined)
  clock.advance(5_000)
  router.sweep()
  expect([idle.closed, mute.closed]).toEqual([false, false])
  clock.advance(1)
  router.sweep()
  await closed(mute)
  clock.advance(30_000)
  router.sweep()
  await closed(idle)
  living.write(bytesOf(text('still here')))
  await heard('still here')
})

it('lets others have their turn between messages of a peer that floods it', async () => {
  let most = 0
  let before = 0
  const flood = raw(GREETING, READY_OF_DEALER('flood'), ...Array.from({ length: 3_000 }, () => bytesOf(text('x'))))
  flood.resume()
  while (got.length < 3_000) {
    await new Promise(setImmediate)
    most = Math.max(most, got.length - before)
    before = got.length
  }
  expect(most).toBeLessThanOrEqual(128)
})

it('listens on what it is told, and says why it cannot', async () => {
  const port = Number(address.split(':')[1])
  await expect(router.listen('no.such.host.invalid', 0)).rejects.toThrow(/--mp-host/)
  const another = new MpRouter({
    clock,
    connectionsMax: 1,
    onMessage: () => {},
    onDropped: () => {},
    onRefused: () => {},
    onError: () => {},
  })
  await expect(another.listen('127.0.0.1', port)).rejects.toMatchObject({ code: 'PORT_TAKEN' })
  another.close()
  another.close()
})
