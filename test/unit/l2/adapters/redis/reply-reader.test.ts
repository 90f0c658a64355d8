import { expect, it } from 'vitest'
import {
  command,
  type RedisCommand,
  type Reply,
  ServerError,
} from '../../../../../src/l2/adapters/redis/redis-command.ts'
import { ReplyReader } from '../../../../../src/l2/adapters/redis/reply-reader.ts'
import { random } from '../../../../support/random.ts'

/** A reader that is fed by hand, as a socket would. */
function readerOf(commands: readonly RedisCommand[]) {
  const queue = [...commands]
  const answers: { command: RedisCommand; reply: Reply }[] = []
  const reader = new ReplyReader(
    () => {
      if (queue.length === 0) throw new Error('nothing was asked')
      return queue[0]!
    },
    (answered, reply) => {
      queue.shift()
      answers.push({ command: answered, reply })
      answered.reply = reply
    },
  )
  /** Hands over bytes, in reads of `sizeOf()` bytes at most. */
  const feed = (bytes: Buffer, sizeOf: () => number) => {
    for (let at = 0; at < bytes.length; ) {
      const buffer = reader.buffer()
      const count = Math.min(buffer.length, bytes.length - at, sizeOf())
      buffer.set(bytes.subarray(at, at + count))
      reader.take(count)
      at += count
    }
  }
  return { reader, answers, feed }
}

function get(...lengths: number[]): RedisCommand {
  return { ...command('k', 'GET', 'k'), places: lengths.map((length) => Buffer.alloc(length)) }
}

function bulk(bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from('\r\n')])
}

// Oracle: what was put into the stream, reply by reply.
it.each([1, 2, 3, 4, 5])('reads any replies in any pieces (seed %i)', (seed) => {
  const next = random(seed)
  const commands: RedisCommand[] = []
  const pieces: Buffer[] = []
  const expected: unknown[] = []
  const contents: Buffer[] = []
  for (let at = 0; at < 200; at += 1) {
    const kind = next(7)
    const length = next(3) === 0 ? next(60_000) : next(40)
    const header = Math.min(length, next(5000))
    const content = Buffer.from(Array.from({ length }, () => next(256)))
    contents.push(content)
    commands.push(kind < 3 ? get(header, length - header) : command('k', 'X'))
    if (kind < 3) pieces.push(bulk(content))
    else pieces.push(kind === 6 ? bulk(content) : Buffer.from([':42\r\n', '+OK\r\n', '$-1\r\n'][kind - 3]!))
    expected.push(kind < 3 || kind === 6 ? { bytes: length } : [42, 'OK', null][kind - 3])
  }
  const { answers, feed } = readerOf(commands)
  feed(Buffer.concat(pieces), () => 1 + next(next(2) === 0 ? 7 : 20_000))
  expect(answers.map(({ reply }) => reply)).toEqual(expected)
  for (const [at, { places }] of commands.entries()) {
    if (places.length > 0) expect(Buffer.concat(places).equals(contents[at]!)).toBe(true)
  }
})

it('drops a bulk string of another length than its places', () => {
  const short = get(10, 10)
  const { answers, feed } = readerOf([short, command('k', 'PING')])
  feed(Buffer.concat([bulk(Buffer.alloc(19, 1)), Buffer.from('+PONG\r\n')]), () => 1000)
  expect(answers.map(({ reply }) => reply)).toEqual([{ bytes: 19 }, 'PONG'])
  expect(Buffer.concat(short.places).every((byte) => byte === 0)).toBe(true)
})

it('writes nothing into the places of a command that was given up', () => {
  const given = get(10, 50_000)
  const { feed, reader } = readerOf([given])
  given.reply = null
  feed(bulk(Buffer.alloc(50_010, 1)), () => 1000)
  expect(Buffer.concat(given.places).every((byte) => byte === 0)).toBe(true)
  expect(reader.isFilling(given)).toBe(false)
})

it('lets a long bulk string be read to where it belongs', () => {
  const long = get(4096, 1_000_000)
  const { feed, reader } = readerOf([long])
  feed(Buffer.concat([Buffer.from('$1004096\r\n'), Buffer.alloc(4096)]), () => 5000)
  expect(reader.buffer().buffer).toBe(long.places[1]!.buffer)
  expect(reader.buffer()).toHaveLength(1_000_000)
  expect(reader.isFilling(long)).toBe(true)
})

it('gives errors of the server their first word', () => {
  const { answers, feed } = readerOf([command('k', 'SET')])
  feed(Buffer.from("-OOM command not allowed when used memory > 'maxmemory'.\r\n"), () => 3)
  expect(answers[0]!.reply).toBeInstanceOf(ServerError)
  expect(answers[0]!.reply).toMatchObject({ word: 'OOM' })
})

it.each(['*1\r\n', '$-2\r\n', '$99999999999\r\n', '$x\r\n', 'HTTP/1.1 400 Bad Request\r\n', '\r\n'])(
  'refuses %j',
  (text) => {
    const { feed } = readerOf([command('k', 'GET')])
    expect(() => feed(Buffer.from(text), () => 100)).toThrow()
  },
)

it('refuses a line without an end, and an answer to no question', () => {
  const { feed } = readerOf([command('k', 'GET')])
  expect(() => feed(Buffer.alloc(20_000, '+'), () => 20_000)).toThrow('too long')
  expect(() => readerOf([]).feed(Buffer.from('+OK\r\n'), () => 10)).toThrow('nothing was asked')
})
