import { expect, it } from 'vitest'
import { MsgpackReader, type ReadWords } from '../../../../src/protocol/msgpack/reader.ts'
import { Client } from '../../../../src/server/mp/clients.ts'
import { LONG_BYTES, LongMessages } from '../../../../src/server/mp/long-messages.ts'

/** Lets the loop turn until something is so. */
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
}

const TOKENS = LONG_BYTES / 4 + 1
/** Numbers of one byte each, which stand for longer ones. */
const readWords: ReadWords = (bytes, at, words, from) => {
  words.set(bytes.subarray(at, at + words.length - from), from)
  return at + words.length - from
}

function clientNamed(name: string): Client {
  return new Client(name, 0)
}

/** A frame of packed tokens, all the same. */
function long(token: number, tokens = TOKENS): Uint8Array {
  const frame = Buffer.alloc(5 + 4 * tokens)
  frame[0] = 0xc6
  frame.writeUInt32BE(4 * tokens, 1)
  for (let at = 0; at < tokens; at += 1) frame.writeUInt32BE(token, 5 + 4 * at)
  return frame
}

const short = (token: number) => Uint8Array.of(0xc4, 4, 0, 0, 0, token)

/** What was handled, in order: the client's name and the first token. */
function record(native: ReadWords | null = readWords) {
  const handled: string[] = []
  const errors: unknown[] = []
  const messages = new LongMessages({
    readWords: native,
    begin: (_client, [frame], tokens) => void new MsgpackReader(frame!).packedWords(1 << 22, tokens.packed),
    perform: (client, [frame], tokens) => {
      const words = new MsgpackReader(frame!).packedWords(1 << 22, tokens?.packed)
      if (words[0] === 13) throw new Error('a bug')
      const isWhole = words.every((word) => word === words[0])
      handled.push(`${client.peer} ${isWhole ? words[0] : 'mixed'} ${tokens === null ? 'as it came' : 'in slices'}`)
    },
    onError: (error) => errors.push(error),
  })
  return { messages, handled, errors }
}

it('a short message is handled as it comes', () => {
  const { messages } = record()
  expect(messages.take(clientNamed('a'), [short(1)])).toBe(false)
})

it('messages of a client stay in order behind a long one, and those of others do not wait', async () => {
  const { messages, handled } = record()
  const [a, b] = [clientNamed('a'), clientNamed('b')]
  for (const frame of [long(1), short(2), long(3, 2 * TOKENS), short(4)]) expect(messages.take(a, [frame])).toBe(true)
  expect(messages.take(b, [short(9)])).toBe(false)
  expect(handled).toEqual([])
  await until(() => handled.length === 4)
  expect(handled).toEqual(['a 1 in slices', 'a 2 as it came', 'a 3 in slices', 'a 4 as it came'])
  expect(messages.take(a, [short(5)])).toBe(false)
})

it('the frames may change as soon as it returns, and its own memory is used again', async () => {
  const { messages, handled } = record()
  const client = clientNamed('a')
  for (let token = 1; token <= 3; token += 1) {
    const frames = [long(token), short(token + 20)]
    for (const frame of frames) messages.take(client, [frame])
    for (const frame of frames) frame.fill(0xff)
    await until(() => handled.length === 2 * token)
  }
  expect(handled.filter((_, at) => at % 2 === 0)).toEqual(['a 1 in slices', 'a 2 in slices', 'a 3 in slices'])
  expect(handled.join()).not.toContain('mixed')
})

it('clients take turns: a long message does not wait for a longer one', async () => {
  const { messages, handled } = record()
  messages.take(clientNamed('a'), [long(1, 8 * TOKENS)])
  messages.take(clientNamed('b'), [long(2)])
  await until(() => handled.length === 2)
  expect(handled).toEqual(['b 2 in slices', 'a 1 in slices'])
})

it('what a client that is gone had sent is forgotten', async () => {
  const { messages, handled } = record()
  const [a, b] = [clientNamed('a'), clientNamed('b')]
  messages.take(a, [long(1)])
  messages.take(b, [long(2)])
  a.isGone = true
  await until(() => handled.length === 1)
  expect(handled).toEqual(['b 2 in slices'])
})

it('a client with too much under way has it handled at once, in order', () => {
  const { messages, handled } = record()
  const client = clientNamed('a')
  messages.take(client, [long(1)])
  let taken = 1
  while (messages.take(client, [short(2)])) taken += 1
  expect(taken).toBe(1024)
  expect(handled).toHaveLength(1024)
  expect(handled[0]).toBe('a 1 in slices')
  messages.close()
})

it('without native code messages are handled as they come', () => {
  const { messages } = record(null)
  expect(messages.take(clientNamed('a'), [long(1)])).toBe(false)
})

it('a bug with one message does not stop those behind it', async () => {
  const { messages, handled, errors } = record()
  const client = clientNamed('a')
  messages.take(client, [long(13)])
  messages.take(client, [short(2)])
  await until(() => handled.length === 1)
  expect(handled).toEqual(['a 2 as it came'])
  expect(errors).toHaveLength(1)
})

it('handles nothing once it is closed', async () => {
  const { messages, handled } = record()
  messages.take(clientNamed('a'), [long(1)])
  messages.close()
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  expect(handled).toEqual([])
})
