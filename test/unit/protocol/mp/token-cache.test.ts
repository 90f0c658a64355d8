import { expect, it } from 'vitest'
import { TokenCache } from '../../../../src/protocol/mp/token-cache.ts'
import { MsgpackReader } from '../../../../src/protocol/msgpack/reader.ts'
import { MsgpackWriter } from '../../../../src/protocol/msgpack/writer.ts'
import { random } from '../../../support/random.ts'

type Form = 'ids' | 'packed'

/** A message of a list, with something behind it. */
function messageOf(form: Form, tokens: Uint32Array): Uint8Array {
  const writer = new MsgpackWriter()
  if (form === 'ids') return writer.words(tokens).str('behind').finish()
  const bytes = Buffer.from(tokens.slice().buffer)
  bytes.swap32()
  return writer.bin(bytes).str('behind').finish()
}

/** Reads a message to its end. @returns the tokens; undefined when it is broken. */
function read(form: Form, message: Uint8Array, cache?: TokenCache): Uint32Array | undefined {
  const reader = new MsgpackReader(message)
  const tokens = form === 'ids' ? reader.words(1 << 22, cache) : reader.packedWords(1 << 22, cache)
  const behind = reader.string(10)
  return reader.isDone && behind === 'behind' ? tokens : undefined
}

const prompt = (length: number, seed = 1) => {
  const next = random(seed)
  return Uint32Array.from({ length }, () => [next(100), next(60_000), next(150_000)][next(3)]!)
}

it.each(['ids', 'packed'] as const)('reads a list of %s once, and goes on from there when it grew', (form) => {
  const cache = new TokenCache(4)
  const tokens = prompt(3_000)
  const first = read(form, messageOf(form, tokens.subarray(0, 1_000)), cache)!
  expect(first).toEqual(tokens.subarray(0, 1_000))
  expect(read(form, messageOf(form, tokens.subarray(0, 1_000)), cache)).toBe(first)
  const grown = read(form, messageOf(form, tokens), cache)!
  expect(grown).toEqual(tokens)
  expect(read(form, messageOf(form, tokens), cache)).toBe(grown)
  expect(first).toEqual(tokens.subarray(0, 1_000))
})

it.each(['ids', 'packed'] as const)('tells lists of %s apart, whichever byte differs', (form) => {
  const cache = new TokenCache(4)
  const message = messageOf(form, prompt(400))
  read(form, message, cache)
  for (let at = 0; at < message.length; at += 1) {
    const other = message.slice()
    other[at]! ^= 1
    expect(read(form, other, cache), `byte ${at}`).toEqual(read(form, other))
    read(form, message, cache)
  }
})

it('keeps copies: the caller may write to its message again', () => {
  const cache = new TokenCache(4)
  const message = messageOf('ids', prompt(400))
  const same = message.slice()
  const first = read('ids', message, cache)
  message.fill(0)
  expect(read('ids', same, cache)).toBe(first)
})

it('finds a list among many of one template, with one token of their own', () => {
  const cache = new TokenCache(64)
  const messages = Array.from({ length: 64 }, (_, name) => messageOf('ids', prompt(400).fill(100_000 + name, 3, 4)))
  const lists = messages.map((message) => read('ids', message, cache))
  for (const [name, message] of messages.entries()) expect(read('ids', message, cache)).toBe(lists[name])
})

it('keeps the lists that came last', () => {
  const cache = new TokenCache(2)
  const messages = [1, 2, 3].map((seed) => messageOf('ids', prompt(400, seed)))
  const lists = messages.map((message) => read('ids', message, cache))
  expect(read('ids', messages[2]!, cache)).toBe(lists[2])
  expect(read('ids', messages[1]!, cache)).toBe(lists[1])
  expect(read('ids', messages[0]!, cache)).not.toBe(lists[0])
})

it('keeps 64 MiB at most, and lets go of the oldest', () => {
  const cache = new TokenCache(256)
  const size = 250_000
  const messages = Array.from({ length: 80 }, (_, name) => messageOf('packed', new Uint32Array(size).fill(name)))
  const lists = messages.map((message) => read('packed', message, cache))
  const kept = messages.filter((message, name) => {
    const reader = new MsgpackReader(message)
    const known = cache.find(reader.bin(4 * size), 0, size)
    return known !== null && known.words === lists[name]
  })
  expect(kept).toHaveLength(67)
  expect(kept[0]).toBe(messages[13])
})

// Oracle: the same reader without a cache.
it.each([1, 2, 3])('reads what a reader without memory reads, broken or not (seed %i)', (seed) => {
  const next = random(seed)
  const caches = { ids: new TokenCache(4), packed: new TokenCache(4) }
  const roots = [prompt(700, seed), prompt(700, seed + 100)]
  for (let step = 0; step < 1_500; step += 1) {
    const form: Form = next(2) === 0 ? 'ids' : 'packed'
    const tokens = roots[next(2)]!.slice(0, next(701))
    if (next(3) === 0) tokens.fill(next(3), next(700))
    const message = Uint8Array.from(messageOf(form, tokens))
    if (next(4) === 0) message[next(message.length)] = next(256)
    if (next(8) === 0) message.fill(0xcf, next(message.length))
    expect(read(form, message, caches[form])).toEqual(read(form, message))
  }
})
