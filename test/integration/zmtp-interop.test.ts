import { createServer, type Server, type Socket, connect as tcp } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { Request, Dealer as TheirDealer, Router as TheirRouter } from 'zeromq'
import { Dealer } from '../../src/client/dealer.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { readyCommand } from '../../src/protocol/zmtp/commands.ts'
import { GREETING, GREETING_BYTES } from '../../src/protocol/zmtp/greeting.ts'
import { MpRouter } from '../../src/server/mp/router.ts'
import { random } from '../support/random.ts'
import { until } from '../support/until.ts'
import { bytesOf, cut, randomMessage } from '../support/zmtp.ts'

// The oracle is libzmq: our router with its sockets, our dealer with its router, and the bytes that it sends.

const NO_IDENTITY = Buffer.alloc(0)
const MESSAGES = 120
const seeds =
  process.env.KVTIER_ZMTP_SEED === undefined ? [1, Date.now() % 1_000_000] : [Number(process.env.KVTIER_ZMTP_SEED)]

const open: { close(): unknown }[] = []
const kept = <Value extends { close(): unknown }>(one: Value): Value => {
  open.push(one)
  return one
}
afterEach(() => {
  for (const one of open.splice(0).reverse()) one.close()
})

const unwanted = (what: unknown) => {
  throw what
}

/** Our router, sending back what comes. @returns host:port. */
function echoRouter(): Promise<string> {
  const router: MpRouter = kept(
    new MpRouter({
      clock: new SystemClock(),
      connectionsMax: 100,
      onMessage: (peer, frames) =>
        router.send(
          peer,
          frames.map((frame) => Buffer.from(frame)),
        ),
      onDropped: () => unwanted(new Error('an answer was dropped')),
      onRefused: (why) => unwanted(new Error(why)),
      onError: unwanted,
    }),
  )
  return router.listen('127.0.0.1', 0)
}

/** Our router, naming itself before what it sends back. */
async function answering(name: string): Promise<{ address: string; close(): void }> {
  const router: MpRouter = kept(
    new MpRouter({
      clock: new SystemClock(),
      connectionsMax: 10,
      onMessage: (peer, [frame]) => router.send(peer, [Buffer.from(`${name}: ${frame}`)]),
      onDropped: () => {},
      onRefused: (why) => unwanted(new Error(why)),
      onError: unwanted,
    }),
  )
  return { address: await router.listen('127.0.0.1', 0), close: () => router.close() }
}

/** libzmq's router, sending back what comes. @returns host:port. */
async function theirEcho(): Promise<string> {
  const router = kept(new TheirRouter({ linger: 0 }))
  await router.bind('tcp://127.0.0.1:*')
  const echo = async () => {
    for await (const frames of router) await router.send(frames)
  }
  void echo()
  return router.lastEndpoint!.slice('tcp://'.length)
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  kept(server)
  return (server.address() as { port: number }).port
}

/** Passes bytes on in pieces of any length, both ways. @returns host:port. */
async function cutter(address: string, next: (limit: number) => number, onBack?: (bytes: Buffer) => void) {
  const [host, port] = address.split(':')
  let connections = 0
  const pass = (from: Socket, to: Socket, tell?: (bytes: Buffer) => void) => {
    from.on('error', () => {}).on('close', () => to.destroy())
    from.on('data', (bytes) => {
      tell?.(bytes)
      for (const piece of cut(bytes, next)) to.write(piece)
    })
  }
  const server = createServer({ noDelay: true }, (socket) => {
    connections += 1
    const behind = tcp({ host: host!, port: Number(port), noDelay: true })
    pass(socket, behind)
    pass(behind, socket, onBack)
  })
  return { address: `127.0.0.1:${await listening(server)}`, connections: () => connections }
}

function expectEqual(got: readonly Uint8Array[], sent: readonly Uint8Array[], what: string): void {
  expect(
    got.map(({ length }) => length),
    what,
  ).toEqual(sent.map(({ length }) => length))
  expect(Buffer.concat(got).equals(Buffer.concat(sent)), what).toBe(true)
}

/** A connection that is read byte by byte. */
class RawSocket {
  readonly socket: Socket
  #bytes = Buffer.alloc(0)

  constructor(socket: Socket) {
    this.socket = socket
    kept({ close: () => socket.destroy() })
    socket
      .on('error', () => {})
      .on('data', (chunk) => {
        this.#bytes = Buffer.concat([this.#bytes, chunk])
      })
  }

  async take(length: number): Promise<Buffer> {
    await until(`${length} bytes`, () => this.#bytes.length >= length || undefined)
    const taken = this.#bytes.subarray(0, length)
    this.#bytes = this.#bytes.subarray(length)
    return taken
  }
}

describe('the bytes of libzmq are ours', () => {
  it('a greeting and READY of its router', async () => {
    const [host, port] = (await theirEcho()).split(':')
    const raw = new RawSocket(tcp({ host: host!, port: Number(port) }))
    raw.socket.write(GREETING)
    expect(await raw.take(GREETING_BYTES)).toEqual(Buffer.from(GREETING))
    raw.socket.write(readyCommand('DEALER', NO_IDENTITY))
    const ready = Buffer.from(readyCommand('ROUTER', NO_IDENTITY))
    expect(await raw.take(ready.length)).toEqual(ready)
  })

  it('READY and messages of its dealer', async () => {
    const accepted = Promise.withResolvers<RawSocket>()
    const port = await listening(createServer((socket) => accepted.resolve(new RawSocket(socket))))
    const dealer = kept(new TheirDealer({ linger: 0, routingId: 'me' }))
    dealer.connect(`tcp://127.0.0.1:${port}`)
    const messages = [[0], [1, 0, 255], [256, 70_000, 2]].map((lengths) => lengths.map((n) => Buffer.alloc(n, n)))
    for (const message of messages) await dealer.send(message)
    const raw = await accepted.promise
    raw.socket.write(Buffer.concat([GREETING, readyCommand('ROUTER', NO_IDENTITY)]))
    const ours = Buffer.concat([GREETING, readyCommand('DEALER', Buffer.from('me')), ...messages.map(bytesOf)])
    ours[8] = 1 + 'me'.length // padding, where libzmq puts the length of an identity of ZMTP 1.0
    expect((await raw.take(ours.length)).equals(ours)).toBe(true)
  })
})

describe.each(seeds)('messages come back as they were sent (seed %i)', (seed) => {
  const next = random(seed)
  const messages = Array.from({ length: MESSAGES }, () => randomMessage(next))

  it('from our router to a dealer of libzmq', async () => {
    const { address } = await cutter(await echoRouter(), next)
    const dealer = kept(new TheirDealer({ linger: 0 }))
    dealer.connect(`tcp://${address}`)
    const sending = (async () => {
      for (const message of messages) await dealer.send(message)
    })()
    for (const [index, message] of messages.entries()) expectEqual(await dealer.receive(), message, `message ${index}`)
    await sending
  })

  it.each(['libzmq', 'our own'])('from a router of %s to our dealer', async (whose) => {
    const { address } = await cutter(await (whose === 'libzmq' ? theirEcho() : echoRouter()), next)
    const got: Buffer[][] = []
    const dealer = kept(new Dealer(address, (frames) => got.push(frames.map((frame) => Buffer.from(frame)))))
    for (const [index, message] of messages.entries()) {
      // As many on the way as a socket of libzmq takes for one peer.
      await until('answers', () => index - got.length < 100 || undefined)
      expect(dealer.send(message)).toBe(true)
    }
    await until('all answers', () => got.length === messages.length || undefined)
    for (const [index, message] of messages.entries()) expectEqual(got[index]!, message, `message ${index}`)
  })
})

it('a REQ of libzmq gets its answer', async () => {
  const request = kept(new Request({ linger: 0 }))
  request.connect(`tcp://${await echoRouter()}`)
  for (const text of ['one', 'two']) {
    await request.send(text)
    expect(String(await request.receive())).toBe(text)
  }
})

it('heartbeats of libzmq are answered: it stays', async () => {
  let pongs = 0
  const proxy = await cutter(
    await echoRouter(),
    () => 0,
    (bytes) => {
      pongs += bytes.includes('PONG') ? 1 : 0
    },
  )
  const dealer = kept(new TheirDealer({ linger: 0, heartbeatInterval: 10, heartbeatTimeout: 20_000 }))
  dealer.connect(`tcp://${proxy.address}`)
  await until('heartbeats', () => pongs >= 5 || undefined)
  await dealer.send('still here')
  expect(String((await dealer.receive())[0])).toBe('still here')
  expect(proxy.connections()).toBe(1)
})

it('our dealer connects until somebody answers, and again after a restart', async () => {
  let target: string | null = null
  let refused = 0
  // A port of our own all the while: nobody else can take it between two routers.
  const door = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => {})
    if (target === null) {
      refused += 1
      socket.destroy()
      return
    }
    const behind = tcp({ host: '127.0.0.1', port: Number(target.split(':')[1]), noDelay: true })
    behind.on('error', () => {}).on('close', () => socket.destroy())
    socket.on('close', () => behind.destroy())
    socket.pipe(behind).pipe(socket)
  })
  const got: string[] = []
  const dealer = kept(new Dealer(`127.0.0.1:${await listening(door)}`, ([frame]) => got.push(String(frame))))
  dealer.send([Buffer.from('early')])
  await until('it has tried twice', () => refused >= 2 || undefined)
  for (const turn of ['first', 'second']) {
    const router = await answering(turn)
    target = router.address
    // What is sent before the loss is noticed is lost with it.
    await until('an answer', () => {
      dealer.send([Buffer.from('again')])
      return got.at(-1)?.startsWith(turn) || undefined
    })
    target = null
    router.close()
  }
  expect(got[0]).toBe('first: early')
})
