import { expect, it } from 'vitest'
import { TokenCache } from '../../../src/protocol/mp/token-cache.ts'
import { MsgpackReader } from '../../../src/protocol/msgpack/reader.ts'
import { addonOf } from '../../support/addon.ts'
import { random } from '../../support/random.ts'

const WORD_MAX = 2 ** 32 - 1

/** One number in a form of MessagePack, now and then one that is no word, or nothing that is whole. */
function number(next: (limit: number) => number, wrongOf: number): Buffer {
  const value = [next(128), next(256), next(65_536), next(2 ** 32), next(2) === 0 ? WORD_MAX : 65_535][next(5)]!
  const buffer = Buffer.alloc(9)
  if (wrongOf > 0 && next(wrongOf) === 0) {
    const wrong = [[0xff], [0xc0], [0xc1], [0xd0, 0x80], [0xd2, 0x80, 0, 0, 0], [0xcf, 0, 0, 0, 1, 0, 0, 0, 0], [0xa0]]
    return Buffer.from(wrong[next(wrong.length)]!)
  }
  const forms: (() => Buffer)[] = [
    () => Buffer.concat([Buffer.of(0xcf), writeWide(value)]),
    () => Buffer.concat([Buffer.of(0xd3), writeWide(value)]),
    () => buffer.subarray(0, buffer.writeUInt32BE(value, buffer.writeUInt8(0xce))),
  ]
  if (value < 2 ** 31) forms.push(() => buffer.subarray(0, buffer.writeUInt32BE(value, buffer.writeUInt8(0xd2))))
  if (value < 2 ** 16) forms.push(() => buffer.subarray(0, buffer.writeUInt16BE(value, buffer.writeUInt8(0xcd))))
  if (value < 2 ** 15) forms.push(() => buffer.subarray(0, buffer.writeUInt16BE(value, buffer.writeUInt8(0xd1))))
  if (value < 2 ** 8) forms.push(() => Buffer.of(0xcc, value))
  if (value < 2 ** 7)
    forms.push(
      () => Buffer.of(value),
      () => Buffer.of(0xd0, value),
    )
  // Mostly what clients send: the shortest form.
  return next(4) === 0 ? forms[next(forms.length)]!() : Buffer.from(forms.at(value < 128 ? -2 : -1)!())
}

function writeWide(value: number): Buffer {
  const wide = Buffer.alloc(8)
  wide.writeBigUInt64BE(BigInt(value))
  return wide
}

// Oracle: the reader in JavaScript.
it.for([1, 2, 3, 4])('native lists of words are those that the reader reads (seed %i)', async (seed, context) => {
  const addon = await addonOf(context)
  const next = random(seed)
  let broken = 0
  for (let step = 0; step < 1_500; step += 1) {
    const count = 64 + next(200)
    const wrongOf = step % 3 === 0 ? 400 : 0
    const members = Array.from({ length: count }, () => number(next, wrongOf))
    const whole = Buffer.concat([Buffer.of(0xdc, count >> 8, count & 255), ...members, Buffer.of(5)])
    const message = step % 7 === 0 ? whole.subarray(0, 3 + next(whole.length - 3)) : whole
    const [theirs, ours] = [new MsgpackReader(message), new MsgpackReader(message)]
    const expected = theirs.words(1_000)
    const words = ours.words(1_000, new TokenCache(1, addon.readWords))
    expect([ours.isBroken, [...words]]).toEqual([theirs.isBroken, [...expected]])
    if (theirs.isBroken) broken += 1
    else expect(ours.int()).toBe(theirs.int()) // both stand at the same place
  }
  expect(broken).toBeGreaterThan(100)
})

it('reads on behind the words that are known', async (context) => {
  const addon = await addonOf(context)
  const words = new Uint32Array([1, 2, 0, 0])
  expect(addon.readWords(Uint8Array.of(9, 9, 0xcd, 1, 0, 7, 0xc0), 2, words, 2)).toBe(6)
  expect([...words]).toEqual([1, 2, 256, 7])
})

it('reads no further than the message, whatever its end claims', async (context) => {
  const addon = await addonOf(context)
  for (const head of [0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3]) {
    for (let length = 1; length < 1 << (head & 3); length += 1) {
      const exact = new Uint8Array(length).fill(0)
      exact[0] = head
      expect(addon.readWords(exact, 0, new Uint32Array(1), 0)).toBe(-1)
    }
  }
  expect(addon.readWords(new Uint8Array(0), 0, new Uint32Array(1), 0)).toBe(-1)
  expect(addon.readWords(new Uint8Array(0), 0, new Uint32Array(0), 0)).toBe(0)
})
