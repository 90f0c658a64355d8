import { expect, it } from 'vitest'
import { SlicedTokens } from '../../../../src/protocol/mp/sliced-tokens.ts'
import { MsgpackReader } from '../../../../src/protocol/msgpack/reader.ts'
import { MsgpackWriter } from '../../../../src/protocol/msgpack/writer.ts'
import { random } from '../../../support/random.ts'

type Form = 'ids' | 'packed'

/** A message of a list, with something before and behind it. */
function messageOf(form: Form, tokens: Uint32Array): Uint8Array {
  const writer = new MsgpackWriter().str('before')
  if (form === 'ids') return writer.words(tokens).str('behind').finish()
  const bytes = Buffer.from(tokens.slice().buffer)
  bytes.swap32()
  return writer.bin(bytes).str('behind').finish()
}

/** @returns the tokens of a message; undefined when it is broken. */
function read(form: Form, message: Uint8Array, tokens?: SlicedTokens): Uint32Array | undefined {
  const reader = new MsgpackReader(message)
  const before = reader.string(10)
  const words = form === 'ids' ? reader.words(1 << 20, tokens?.ids) : reader.packedWords(1 << 20, tokens?.packed)
  const behind = reader.string(10)
  return reader.isDone && before === 'before' && behind === 'behind' ? words : undefined
}

/** Reads the forms that a writer makes, one after another. */
function readWords(bytes: Uint8Array, from: number, words: Uint32Array, first: number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  let at = from
  for (let index = first; index < words.length; index += 1) {
    const head = at < bytes.length ? bytes[at]! : 0xff
    const width = head < 0x80 ? 0 : head >= 0xcc && head <= 0xce ? 1 << (head - 0xcc) : -1
    if (width < 0 || at + 1 + width > bytes.length) return -1
    if (width === 0) words[index] = head
    else
      words[index] = width === 1 ? view.getUint8(at + 1) : width === 2 ? view.getUint16(at + 1) : view.getUint32(at + 1)
    at += 1 + width
  }
  return at
}

function readInSlices(
  form: Form,
  message: Uint8Array,
  slice: number,
): { words: Uint32Array | undefined; turns: number } {
  const tokens = new SlicedTokens(readWords)
  read(form, message, tokens)
  let turns = 1
  while (!tokens.readSome(slice)) turns += 1
  return { words: read(form, message, tokens), turns }
}

const prompt = (length: number, seed: number) => {
  const next = random(seed)
  return Uint32Array.from({ length }, () => [next(100), next(60_000), next(150_000)][next(3)]!)
}

it.each(['ids', 'packed'] as const)('reads %s in slices of any length as in one go', (form) => {
  for (const [seed, length] of [0, 1, 15, 16, 17, 300].entries()) {
    const message = messageOf(form, prompt(length, seed + 1))
    for (const slice of [1, 7, 16, 1_000]) {
      const { words, turns } = readInSlices(form, message, slice)
      expect(words, `${length} in slices of ${slice}`).toEqual(prompt(length, seed + 1))
      expect(turns).toBe(Math.max(1, Math.ceil(length / slice)))
    }
  }
})

it.each(['ids', 'packed'] as const)('refuses what is refused in one go: %s with any byte changed or gone', (form) => {
  const message = messageOf(form, prompt(60, 3))
  for (let at = 0; at < message.length; at += 1) {
    const other = message.slice()
    other[at]! = 0xc1 // never used by MessagePack
    expect(readInSlices(form, other, 16).words, `byte ${at}`).toEqual(read(form, other))
    const short = message.slice(0, at)
    expect(readInSlices(form, short, 16).words, `${at} bytes`).toEqual(read(form, short))
  }
})

it('a message without tokens is read at once', () => {
  const tokens = new SlicedTokens(readWords)
  expect(tokens.readSome(1)).toBe(true)
})

it('only the first list is read in slices: others, and lists elsewhere, are not taken for it', () => {
  const tokens = new SlicedTokens(readWords)
  const message = messageOf('ids', prompt(40, 1))
  read('ids', message, tokens)
  while (!tokens.readSome(16));
  expect(read('ids', messageOf('ids', prompt(40, 2)), tokens)).toEqual(prompt(40, 2))
  expect(read('packed', messageOf('packed', prompt(40, 3)), tokens)).toEqual(prompt(40, 3))
  expect(read('ids', message, tokens)).toEqual(prompt(40, 1))
})
