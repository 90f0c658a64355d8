import { Decoder, Encoder, ExtData } from '@msgpack/msgpack'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { MsgpackReader } from '../../../../src/protocol/msgpack/reader.ts'
import { MsgpackWriter } from '../../../../src/protocol/msgpack/writer.ts'

// Oracle: @msgpack/msgpack, which has an encoder and a decoder of its own.
const encoder = new Encoder({ useBigInt64: true })
const decoder = new Decoder({ useBigInt64: true })

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 64n - 1n })
const int = fc.oneof(fc.integer(), fc.maxSafeInteger(), int64)

it('reads every integer of 64 bits whole, and writes it so that another decoder does', () => {
  fc.assert(
    fc.property(int, (value) => {
      const message = new MsgpackWriter().int(value).finish()
      expect(new MsgpackReader(message).bigint()).toBe(BigInt(value))
      expect(BigInt(decoder.decode(message) as number | bigint)).toBe(BigInt(value))
      const isWide = Math.abs(Number(value)) >= 2 ** 31 // the oracle makes floats of wide numbers, not of wide bigints
      const foreign = new MsgpackReader(encoder.encode(isWide ? BigInt(value) : value))
      expect(foreign.bigint()).toBe(BigInt(value))
      expect(foreign.isDone).toBe(true)
    }),
  )
})

it('keeps a 63-bit id that a double would round', () => {
  const id = 2n ** 62n + 1n
  expect(new MsgpackReader(new MsgpackWriter(1).int(id).finish()).int()).toBe(id)
})

it('tells whole numbers from floats', () => {
  const float = new MsgpackReader(new MsgpackWriter().float(3).finish())
  expect(float.next()).toBe('float')
  expect(float.number()).toBe(3)
  const refused = new MsgpackReader(new MsgpackWriter().float(3).finish())
  refused.count(0, 10)
  expect(refused.isBroken).toBe(true)
  expect(new MsgpackReader(encoder.encode(1.5)).number()).toBe(1.5)
})

it.each([Number.NaN, Number.POSITIVE_INFINITY])('refuses %s for a number', (value) => {
  const reader = new MsgpackReader(new MsgpackWriter().float(value).finish())
  reader.number()
  expect(reader.isBroken).toBe(true)
})

it('reads and writes strings and bytes of every length form', () => {
  for (const length of [0, 1, 31, 32, 255, 256, 65_535, 65_536]) {
    const text = 'é'.repeat(Math.floor(length / 2)) + 'x'.repeat(length % 2)
    const bytes = Uint8Array.from({ length }, (_, index) => index)
    const message = new MsgpackWriter().array(2).str(text).bin(bytes).finish()
    expect(decoder.decode(message)).toEqual([text, bytes])
    const reader = new MsgpackReader(encoder.encode([text, bytes]))
    expect(reader.array(2)).toBe(2)
    expect(reader.string(length)).toBe(text)
    expect(reader.bin(length)).toEqual(bytes)
    expect(reader.isDone).toBe(true)
  }
})

const token = fc.oneof(...[2 ** 8, 2 ** 16, 2 ** 32].map((end) => fc.integer({ min: 0, max: end - 1 })))

it('reads and writes lists of tokens', () => {
  fc.assert(
    fc.property(fc.array(token, { maxLength: 100 }), (tokens) => {
      const reader = new MsgpackReader(encoder.encode(tokens))
      expect([...reader.words(100)]).toEqual(tokens)
      expect(new MsgpackWriter(1).words(Uint32Array.from(tokens)).finish()).toEqual(encoder.encode(tokens))
      expect(reader.isDone).toBe(true)
    }),
  )
})

it.each([[[1, -1]], [[1, 2 ** 32]], [[1, 'x']], [[1, 1.5]], [[1, null]]])('refuses %j as tokens', (list) => {
  const reader = new MsgpackReader(encoder.encode(list))
  expect(reader.words(10)).toHaveLength(0)
  expect(reader.isBroken).toBe(true)
})

const leaf = fc.oneof(
  fc.boolean(),
  fc.constant(null),
  int,
  fc.double(),
  fc.string(),
  fc.uint8Array(),
  fc.uint8Array({ maxLength: 20 }).map((data) => new ExtData(1, data)),
)
const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof({ maxDepth: 6 }, leaf, fc.array(tie('tree')), fc.dictionary(fc.string(), tie('tree'))),
}))

it('steps over any value, extension types included, to exactly its end', () => {
  fc.assert(
    fc.property(tree, fc.integer(), (value, after) => {
      const message = Buffer.concat([encoder.encode(value), encoder.encode(after)])
      const reader = new MsgpackReader(message)
      reader.skip()
      expect(reader.int()).toBe(after)
      expect(reader.isDone).toBe(true)
    }),
  )
})

it('is broken by every message that was cut short, and never throws', () => {
  fc.assert(
    fc.property(tree, fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), (value, share) => {
      const whole = encoder.encode(value)
      const reader = new MsgpackReader(whole.subarray(0, Math.floor(whole.length * share)))
      reader.skip()
      expect(reader.isBroken).toBe(true)
    }),
  )
})

it.each([
  ['array', [0xdd, 0x40, 0, 0, 0]],
  ['map', [0xdf, 0x40, 0, 0, 0]],
  ['string', [0xdb, 0x40, 0, 0, 0]],
  ['bin', [0xc6, 0x40, 0, 0, 0]],
  ['ext', [0xc9, 0x40, 0, 0, 0, 1]],
])('refuses the claim of a %s of 1 GiB without making room for it', (_kind, bytes) => {
  const before = process.memoryUsage().arrayBuffers
  for (const read of ['skip', 'words', 'bin', 'string', 'array', 'map'] as const) {
    const reader = new MsgpackReader(Uint8Array.from(bytes))
    reader[read](2 ** 31)
    expect(reader.isBroken).toBe(true)
  }
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1024 * 1024)
})

it('does not run out of stack on a million nested lists', () => {
  const reader = new MsgpackReader(new Uint8Array(1_000_000).fill(0x91))
  reader.skip()
  expect(reader.isBroken).toBe(true)
})

it('refuses text that is not UTF-8: two salts must not become one', () => {
  const reader = new MsgpackReader(Uint8Array.from([0xa2, 0xc3, 0x28]))
  expect(reader.string(10)).toBe('')
  expect(reader.isBroken).toBe(true)
})

it('gives a copy at each finish, and starts anew', () => {
  const writer = new MsgpackWriter(1)
  const first = writer.str('first').finish()
  const second = writer.array(2).nil().bool(true).finish()
  expect(decoder.decode(first)).toBe('first')
  expect(decoder.decode(second)).toEqual([null, true])
})
