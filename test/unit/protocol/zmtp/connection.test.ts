import { describe, expect, it } from 'vitest'
import { pingCommand, readyCommand } from '../../../../src/protocol/zmtp/commands.ts'
import { encodeCommand } from '../../../../src/protocol/zmtp/frames.ts'
import { GREETING } from '../../../../src/protocol/zmtp/greeting.ts'
import { random } from '../../../support/random.ts'
import { bytesOf, cut, MIB, READY_OF_DEALER, RouterSide, randomMessage } from '../../../support/zmtp.ts'

const greetingWith = (mechanism: string, major = 3): Buffer => {
  const bytes = Buffer.from(GREETING)
  bytes.fill(0, 12, 32).write(mechanism, 12, 'latin1')
  bytes[10] = major
  return bytes
}
/** A frame that claims a length. */
const claim = (flags: number, high: number, low: number): Buffer => {
  const head = Buffer.alloc(9)
  head[0] = flags
  head.writeUInt32BE(high, 1)
  head.writeUInt32BE(low, 5)
  return head
}
const text = (...frames: string[]) => frames.map((frame) => Buffer.from(frame))

describe('messages', () => {
  // KVTIER_ZMTP_SEED replays a run.
  const given = process.env.KVTIER_ZMTP_SEED
  it.each(given === undefined ? [1, 2, 3, Date.now() % 1_000_000] : [Number(given)])(
    'come as they were sent, however they are cut, with heartbeats anywhere (seed %i)',
    (seed) => {
      const next = random(seed)
      const side = new RouterSide().meet()
      const sent = Array.from({ length: 60 }, () => randomMessage(next))
      let pings = 0
      const ping = () => {
        if (next(8) > 0) return []
        pings += 1
        return [pingCommand(0, Buffer.from('xyz'))]
      }
      const parts = sent.flatMap((message) => {
        const frames = message.flatMap((frame, index) => {
          const isLast = index === message.length - 1
          // Of a message of two frames the head of the first says that there is more.
          return [bytesOf(isLast ? [frame] : [frame, text('')[0]!]).subarray(0, isLast ? undefined : -2), ...ping()]
        })
        return [...frames, ...ping()]
      })
      for (const piece of cut(Buffer.concat(parts), next)) expect(side.feed(piece)).toBe('none')
      expect(side.messages.length).toBe(sent.length)
      for (const [index, message] of sent.entries()) {
        expect(side.messages[index]!.map(({ length }) => length)).toEqual(message.map(({ length }) => length))
        expect(Buffer.concat(side.messages[index]!).equals(Buffer.concat(message)), `message ${index}`).toBe(true)
      }
      expect(side.sent()).toEqual(Buffer.concat(Array(pings).fill(Buffer.from('\x04\x08\x04PONGxyz', 'latin1'))))
      expect(side.memory.bytes).toBe(0)
    },
  )

  it('are not copied when they come in one chunk', () => {
    const side = new RouterSide().meet()
    const chunk = bytesOf(text('uid', 'op', 'payload'))
    side.connection.push(chunk)
    expect(side.connection.next()).toBe('message')
    expect(side.connection.frames.map((frame) => frame.buffer === chunk.buffer)).toEqual([true, true, true])
  })

  it('take memory as they come, and not as they claim', () => {
    const side = new RouterSide().meet()
    expect(side.feed(claim(2, 0, 19 * MIB))).toBe('none')
    expect(side.memory.bytes).toBeLessThanOrEqual(MIB)
    for (let sent = 0; sent < 19; sent += 1) {
      expect(side.memory.bytes).toBeLessThanOrEqual(Math.max(1, 4 * sent) * MIB)
      side.feed(Buffer.alloc(MIB, 7))
    }
    expect(side.messages.map(([frame]) => frame!.length)).toEqual([19 * MIB])
    side.feed(bytesOf(text('next')))
    expect(side.memory.bytes).toBe(0)
    expect(side.messages.length).toBe(2)
  })
})

describe('a peer is refused', () => {
  const ready = (...parts: Uint8Array[]) => Buffer.concat([GREETING, READY_OF_DEALER(), ...parts])
  it.each<[string, Buffer, string]>([
    ['that speaks HTTP', Buffer.from('GET / HTTP/1.1\r\n'), 'not_zmtp'],
    ['of ZMTP 1.0, without an identity', Buffer.of(1, 0), 'old_version'],
    ['of ZMTP 1.0, with a long identity', Buffer.of(0xff, 0, 0, 0, 0, 0, 0, 1, 44, 0), 'old_version'],
    ['of ZMTP 2.0', Buffer.of(0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 1, 5), 'old_version'],
    ['with another signature', Buffer.of(0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7d), 'not_zmtp'],
    ['that sends a message too early', Buffer.concat([GREETING, bytesOf(text('a'))]), 'handshake'],
    ['that greets with another command', Buffer.concat([GREETING, pingCommand(0, Buffer.alloc(0))]), 'handshake'],
    ['whose metadata is cut', Buffer.concat([GREETING, encodeCommand(Buffer.from('\x05READY\x03abc'))]), 'handshake'],
    [
      'whose metadata claims 4 GiB',
      Buffer.concat([GREETING, encodeCommand(Buffer.from('\x05READY\x01a\xff\xff\xff\xff', 'latin1'))]),
      'handshake',
    ],
    ['that says READY twice', ready(READY_OF_DEALER()), 'frame'],
    ['with reserved flags', ready(Buffer.of(0x08, 0)), 'frame'],
    ['with a command of several frames', ready(Buffer.of(0x05, 0)), 'frame'],
    ['with a command without a name', ready(Buffer.of(0x04, 1, 0)), 'frame'],
    ['with a command whose name is cut', ready(Buffer.of(0x04, 2, 9, 65)), 'frame'],
    ['that claims 1 GiB', ready(claim(2, 0, 2 ** 30)), 'too_long'],
    ['that claims 2^63 bytes', ready(claim(3, 2 ** 31, 0)), 'too_long'],
    ['that claims 2^64 - 1 bytes', ready(claim(2, 2 ** 32 - 1, 2 ** 32 - 1)), 'too_long'],
    [
      'that claims 21 MiB over two frames',
      ready(bytesOf([Buffer.alloc(MIB)]).fill(3, 0, 1), claim(2, 0, 20 * MIB)),
      'too_long',
    ],
    ['with a command of 1 MiB', ready(claim(6, 0, MIB)), 'too_long'],
    ['with more frames than a message may have', ready(...Array<Buffer>(101).fill(Buffer.of(1, 0))), 'too_long'],
    ['that refuses us', ready(encodeCommand(Buffer.from('\x05ERROR\x02no'))), 'refused'],
  ])('%s', (_name, bytes, fault) => {
    const [whole, cutUp] = [new RouterSide(), new RouterSide()]
    expect(whole.feed(bytes)).toBe('broken')
    for (const byte of bytes) cutUp.feed(Buffer.of(byte))
    expect([whole.connection.fault, cutUp.connection.fault]).toEqual([fault, fault])
    expect([whole.memory.bytes, cutUp.memory.bytes]).toEqual([0, 0])
    expect([...whole.messages, ...cutUp.messages]).toEqual([])
  })

  it.each<[string, Buffer, string]>([
    ['PLAIN', greetingWith('PLAIN'), 'mechanism'],
    ['CURVE', greetingWith('CURVE'), 'mechanism'],
    ['a mechanism that begins with NULL', greetingWith('NULLIFY'), 'mechanism'],
    ['a SUB', Buffer.concat([GREETING, readyCommand('SUB', Buffer.alloc(0))]), 'socket_type'],
    ['no socket type', Buffer.concat([GREETING, encodeCommand(Buffer.from('\x05READY'))]), 'socket_type'],
    ['an identity that begins with zero', Buffer.concat([GREETING, READY_OF_DEALER('\0a')]), 'identity'],
    ['an identity of 256 bytes', Buffer.concat([GREETING, READY_OF_DEALER('i'.repeat(256))]), 'identity'],
  ])('and told so: %s', (_name, bytes, fault) => {
    const side = new RouterSide()
    side.feed(bytes)
    expect(side.connection.fault).toBe(fault)
    expect(side.sent().toString('latin1')).toMatch(/ERROR.(the only|no such|an identity)[ -~]+$/)
  })

  it('when there is no memory for what it sends in part', () => {
    const side = new RouterSide(MIB).meet()
    expect(side.feed(Buffer.concat([claim(2, 0, 3 * MIB), Buffer.alloc(2 * MIB)]))).toBe('broken')
    expect(side.connection.fault).toBe('no_memory')
    expect(side.memory.bytes).toBe(0)
  })

  it.each([1, 2, 3, 4, 5])('or served, whatever it sends, and leaves no memory behind (seed %i)', (seed) => {
    const next = random(seed)
    for (let run = 0; run < 400; run += 1) {
      const side = new RouterSide()
      const noise = Buffer.alloc(next(400)).map(() => [next(256), next(4), 0][next(3)]!)
      const start = [[], [GREETING], [GREETING, READY_OF_DEALER()]][next(3)]! as Uint8Array[]
      for (const piece of cut(Buffer.concat([...start, noise]), next)) if (side.feed(piece) === 'broken') break
      side.connection.close()
      expect(side.memory.bytes).toBe(0)
    }
  })
})

describe('the handshake', () => {
  it('sends what libzmq sends', () => {
    const side = new RouterSide()
    side.feed(Buffer.concat([GREETING, READY_OF_DEALER()]))
    const greeting = Buffer.from(
      `ff00000000000000017f0301${Buffer.from('NULL').toString('hex')}`.padEnd(128, '0'),
      'hex',
    )
    const ready = Buffer.from('\x04\x29\x05READY\x0bSocket-Type\0\0\0\x06ROUTER\x08Identity\0\0\0\0', 'latin1')
    expect(side.sent()).toEqual(Buffer.concat([greeting, ready]))
  })

  it('reads names of properties in any case, and passes over those it does not know', () => {
    const side = new RouterSide()
    const body = '\x05READY\x06X-Name\0\0\0\x01v\x0bsocket-TYPE\0\0\0\x03REQ\x08identITY\0\0\0\x02me'
    expect(side.feed(Buffer.concat([GREETING, encodeCommand(Buffer.from(body, 'latin1'))]))).toBe('none')
    expect(side.connection.peer).toEqual({ socketType: 'REQ', identity: Uint8Array.from(Buffer.from('me')) })
  })

  it.each([0, 1, 9])('takes a peer of version 3.%i', (minor) => {
    const side = new RouterSide()
    const greeting = Buffer.from(GREETING)
    greeting[11] = minor
    side.feed(Buffer.concat([greeting, READY_OF_DEALER(), bytesOf(text('a'))]))
    expect(side.messages).toEqual([text('a')])
  })
})

describe('commands', () => {
  it('that are unknown are ignored', () => {
    const side = new RouterSide().meet()
    const commands = ['\x09SUBSCRIBEx', '\x04JOINx', '\x04PONG', '\x01x'].map((body) =>
      encodeCommand(Buffer.from(body)),
    )
    expect(side.feed(Buffer.concat([...commands, bytesOf(text('a'))]))).toBe('none')
    expect(side.messages).toEqual([text('a')])
  })

  it('of heartbeats are answered with their context, and say how long silence is allowed', () => {
    const side = new RouterSide().meet()
    side.feed(Buffer.concat([pingCommand(1_500, Buffer.from('context')), pingCommand(1_500, Buffer.alloc(20, 65))]))
    const pong = (context: string) => encodeCommand(Buffer.from(`\x04PONG${context}`))
    expect(side.sent()).toEqual(Buffer.concat([pong('context'), pong('A'.repeat(16))]))
    expect(side.connection.ttlMs).toBe(1_500)
  })
})
