import { readyCommand } from '../../src/protocol/zmtp/commands.ts'
import { ZmtpConnection, type ZmtpEvent } from '../../src/protocol/zmtp/connection.ts'
import { encodeMessage } from '../../src/protocol/zmtp/frames.ts'
import { GREETING } from '../../src/protocol/zmtp/greeting.ts'
import { HeldMemory } from '../../src/protocol/zmtp/held-memory.ts'

type Next = (limit: number) => number

export const MIB = 1024 * 1024
const ROUTER = {
  socketType: 'ROUTER',
  peerTypes: ['DEALER', 'REQ', 'ROUTER'],
  messageBytesMax: 20 * MIB,
  framesMax: 100,
  isWelcoming: true,
}

/** The router's side of a connection. */
export class RouterSide {
  readonly memory: HeldMemory
  readonly connection: ZmtpConnection
  /** Messages that came, copied. */
  readonly messages: Buffer[][] = []
  readonly #sent: Uint8Array[] = []

  constructor(memoryMax = 64 * MIB) {
    this.memory = new HeldMemory(memoryMax)
    this.connection = new ZmtpConnection(ROUTER, this.memory)
  }

  /** What it sent since the last time. */
  sent(): Buffer {
    return Buffer.concat(this.#sent.splice(0))
  }

  /** Gives it bytes, in a buffer that is spoilt afterwards, as a socket's may be. @returns the last event. */
  feed(bytes: Uint8Array): ZmtpEvent {
    const chunk = Buffer.from(bytes)
    this.connection.push(chunk)
    for (;;) {
      const event = this.connection.next()
      if (event === 'ready') this.connection.welcome()
      this.#sent.push(...this.connection.takeOutput())
      if (event === 'message') this.messages.push(this.connection.frames.map((frame) => Buffer.from(frame)))
      if (event === 'none' || event === 'broken') {
        chunk.fill(0xee)
        return event
      }
    }
  }

  /** As a DEALER that behaves. */
  meet(identity: Uint8Array = new Uint8Array(0)): this {
    this.feed(Buffer.concat([GREETING, readyCommand('DEALER', identity)]))
    this.sent()
    return this
  }
}

/** Frames of every kind of length: none, short, either side of the long form, and of megabytes now and then. */
export function randomMessage(next: Next): Buffer[] {
  const length = () =>
    [0, next(10), 250 + next(12), next(2000), next(70_000), next(40) === 0 ? next(3 * MIB) : 1][next(6)]!
  return Array.from({ length: 1 + next(6) }, () => Buffer.alloc(length(), 1 + next(255)))
}

export function bytesOf(frames: readonly Uint8Array[]): Buffer {
  return Buffer.concat(encodeMessage(frames))
}

/** Cuts bytes in pieces of any length. */
export function* cut(bytes: Buffer, next: Next): Generator<Buffer> {
  for (let at = 0; at < bytes.length; ) {
    const length = 1 + [next(3), next(300), next(66_000), next(MIB)][next(4)]!
    yield bytes.subarray(at, at + length)
    at += length
  }
}

export const READY_OF_DEALER = (identity = ''): Buffer => Buffer.from(readyCommand('DEALER', Buffer.from(identity)))
