import { createServer } from 'node:net'
import { Router } from 'zeromq'
import { SystemClock } from '../../src/core/clock.ts'
import { MpRouter } from '../../src/server/mp/router.ts'
import { answerOf } from './mp-echo-payload.ts'

/**
 * Floors of the MP wire, each in a process of its own, by its first word. The op of a request says how many bytes the
 * answer's payload has. Prints the port.
 *
 *     transport   the router of our own, with nothing behind it
 *     libzmq      a bare ROUTER of libzmq
 *     net         a socket of Node's: a byte for whatever comes
 */
const LISTENERS: Readonly<Record<string, () => Promise<number | string>>> = {
  transport: async () => {
    const fail = (error: unknown) => {
      throw error
    }
    const router: MpRouter = new MpRouter({
      clock: new SystemClock(),
      connectionsMax: 1024,
      onMessage: (peer, [uid, op]) => router.send(peer, answerOf(uid!, op!)),
      onDropped: () => fail(new Error('an answer was dropped')),
      onRefused: fail,
      onError: fail,
    })
    return (await router.listen('127.0.0.1', 0)).split(':').at(-1)!
  },
  libzmq: async () => {
    const socket = new Router({ linger: 0 })
    await socket.bind('tcp://127.0.0.1:*')
    const echo = async () => {
      for await (const [identity, uid, op] of socket) await socket.send([identity!, ...answerOf(uid!, op!)])
    }
    void echo()
    return socket.lastEndpoint!.split(':').at(-1)!
  },
  net: async () => {
    const byte = Uint8Array.of(1)
    const server = createServer({ noDelay: true }, (socket) => socket.on('data', () => socket.write(byte)))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return (server.address() as { port: number }).port
  },
}

console.log(await LISTENERS[process.argv[2]!]!())
process.once('SIGTERM', () => process.exit(0))
process.stdin.resume().once('close', () => process.exit(0))
