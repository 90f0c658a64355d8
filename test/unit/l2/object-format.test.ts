import { describe, expect, it } from 'vitest'
import { HEADER_BYTES, RecordFormat, readHeader, TEXT_LENGTH_MAX } from '../../../src/l2/object-format.ts'
import { chainBatch, payloadOf, SPACE } from '../../support/l2-objects.ts'
import { random } from '../../support/random.ts'

const batch = chainBatch(SPACE, 1, 0, 2)
const format = new RecordFormat(SPACE)

function record(index = 1): { header: Buffer; payload: Uint8Array } {
  const header = Buffer.alloc(HEADER_BYTES, 0xff)
  const payload = payloadOf(1, index)
  format.encode(batch, index, payload, header)
  return { header, payload }
}

describe('a record', () => {
  it('passes its own verification', () => {
    const { header, payload } = record()
    expect(format.verify(batch, 1, header, payload)).toBeUndefined()
  })

  it('says what it is to a reader that expects nothing', () => {
    const space = { ...SPACE, model: 'org/modèl', salt: 's"\n', ranks: 4, rank: 3 }
    const header = Buffer.alloc(HEADER_BYTES)
    new RecordFormat(space).encode(chainBatch(space, 1, 0, 2), 1, payloadOf(1, 1), header)
    expect(readHeader(header)).toEqual({
      space,
      hash: batch.hashes.slice(32, 64),
      parent: batch.parents.slice(32, 64),
    })
  })

  it.each([1, 2, 3])('never passes with a bit of its header flipped (seed %i)', (seed) => {
    const next = random(seed)
    for (let round = 0; round < 500; round += 1) {
      const { header, payload } = record()
      // Half of the flips lie among the fields, the others anywhere.
      const at = next(2) === 0 ? next(160) : next(HEADER_BYTES)
      header[at]! ^= 1 << next(8)
      expect(format.verify(batch, 1, header, payload), `byte ${at}`).toMatch(/^(magic|version|header_checksum)$/)
      expect(readHeader(header), `byte ${at}`).toBeTypeOf('string')
    }
  })

  it.each([1, 2, 3])('never passes with a bit of its payload flipped (seed %i)', (seed) => {
    const next = random(seed)
    for (let round = 0; round < 500; round += 1) {
      const { header, payload } = record()
      payload[next(payload.length)]! ^= 1 << next(8)
      expect(format.verify(batch, 1, header, payload)).toBe('payload_checksum')
    }
  })

  it('is not another chunk of the same space', () => {
    const { header, payload } = record(1)
    expect(format.verify(batch, 0, header, payload)).toBe('key')
  })

  it.each([
    ['model', { model: 'n' }, 'key'],
    ['salt', { salt: 'x' }, 'key'],
    ['model and salt, run together the same', { model: '', salt: 'm' }, 'key'],
    ['ranks', { ranks: 2 }, 'key'],
    ['rank', { rank: 1, ranks: 2 }, 'key'],
    ['layout', { layout: 'layout-2' }, 'layout'],
    ['shorter layout', { layout: 'layout' }, 'layout'],
    ['shardBytes', { shardBytes: 999 }, 'length'],
  ])('is not an object of another %s', (_what, change, fault) => {
    const { header, payload } = record()
    expect(new RecordFormat({ ...SPACE, ...change }).verify(batch, 1, header, payload)).toBe(fault)
  })

  it('keeps two lone surrogates apart', () => {
    const header = Buffer.alloc(HEADER_BYTES)
    new RecordFormat({ ...SPACE, salt: '\ud800' }).encode(batch, 1, payloadOf(1, 1), header)
    expect(new RecordFormat({ ...SPACE, salt: '\ud801' }).verify(batch, 1, header, payloadOf(1, 1))).toBe('key')
  })

  it('is refused when it is shorter than a header, or its payload than it says', () => {
    const { header, payload } = record()
    expect(format.verify(batch, 1, header.subarray(0, HEADER_BYTES - 1), payload)).toBe('short')
    expect(format.verify(batch, 1, header, payload.subarray(1))).toBe('length')
  })
})

it('RecordFormat refuses texts that do not fit a header', () => {
  const fits = { ...SPACE, model: 'm'.repeat(TEXT_LENGTH_MAX - SPACE.layout.length) }
  expect(() => new RecordFormat(fits)).not.toThrow()
  expect(() => new RecordFormat({ ...fits, salt: 's' })).toThrow(expect.objectContaining({ code: 'BAD_REQUEST' }))
})
