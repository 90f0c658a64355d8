import { expect, it } from 'vitest'
import { Outbox, type Sink } from '../../../../src/protocol/zmtp/outbox.ts'

class Socket implements Sink {
  writableNeedDrain = false
  readonly writes: string[] = []
  write(bytes: Uint8Array): boolean {
    this.writes.push(Buffer.from(bytes).toString())
    return !this.writableNeedDrain
  }
  cork(): void {}
  uncork(): void {}
}

const piece = (text: string) => [Buffer.from(text)]
const newOutbox = (socket: Sink | null, messages = 3, bytes = 100) => new Outbox({ messages, bytes }, socket)

it('sends each message at once', () => {
  const socket = new Socket()
  const outbox = newOutbox(socket)
  for (const text of ['a', 'b']) expect(outbox.send(piece(text))).toBe(true)
  expect(socket.writes).toEqual(['a', 'b'])
})

it('sends gathered messages together, in order', () => {
  const socket = new Socket()
  const outbox = newOutbox(socket)
  outbox.gather(true)
  for (const text of ['a', 'b']) outbox.send(piece(text))
  expect(socket.writes).toEqual([])
  outbox.gather(false)
  expect(socket.writes).toEqual(['ab'])
})

it('refuses messages beyond its number or bytes while the socket takes none, and goes on when it does', () => {
  const socket = new Socket()
  socket.writableNeedDrain = true
  const [byNumber, byBytes] = [newOutbox(socket), newOutbox(socket, 100, 10)]
  expect(['a', 'b', 'c', 'd', 'e'].map((text) => byNumber.send(piece(text)))).toEqual([true, true, true, false, false])
  expect([20, 1, 1].map((length) => byBytes.send(piece('x'.repeat(length))))).toEqual([true, false, false])
  byNumber.flush()
  expect(socket.writes).toEqual([])
  socket.writableNeedDrain = false
  byNumber.flush()
  expect(socket.writes).toEqual(['abc'])
  expect(byNumber.send(piece('f'))).toBe(true)
  expect(socket.writes).toEqual(['abc', 'f'])
})

it('keeps messages until there is a socket, and between two', () => {
  const [first, second] = [new Socket(), new Socket()]
  const outbox = newOutbox(null)
  outbox.send(piece('a'))
  outbox.attach(first)
  outbox.attach(null)
  outbox.send(piece('b'))
  outbox.attach(second)
  expect([first.writes, second.writes]).toEqual([['a'], ['b']])
})

it('does not join long pieces, which would be copied', () => {
  const socket = new Socket()
  const outbox = newOutbox(socket, 10, 1e6)
  outbox.gather(true)
  for (const text of ['a', 'b', 'x'.repeat(100_000), 'c', 'd']) outbox.send(piece(text))
  outbox.gather(false)
  expect(socket.writes.map(({ length }) => length)).toEqual([2, 100_000, 2])
})
