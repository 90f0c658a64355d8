import { expect, it } from 'vitest'
import { ShardMarks } from '../../../src/transfer/shard-marks.ts'

it('counts ranks that were handed over and stored, chunk by chunk', () => {
  const marks = new ShardMarks(4)
  marks.noteHanded(3, 7, 2)
  marks.noteStored(3, 7)
  expect([marks.handed(3, 7), marks.stored(3, 7)]).toEqual([2, 1])
  expect([marks.handed(2, 7), marks.stored(2, 7)]).toEqual([0, 0])
  marks.forget(3, 7)
  expect([marks.handed(3, 7), marks.stored(3, 7)]).toEqual([0, 0])
})

it('knows nothing of the chunk that a record serves next', () => {
  const marks = new ShardMarks(4)
  marks.noteHanded(1, 0xff_ffff, 255)
  marks.noteStored(1, 0xff_ffff)
  expect([marks.handed(1, 0xff_ffff), marks.stored(1, 0xff_ffff)]).toEqual([255, 1])
  expect([marks.handed(1, 0xff_fffe), marks.stored(1, 0)]).toEqual([0, 0])
  marks.noteStored(1, 5)
  expect([marks.handed(1, 5), marks.stored(1, 5), marks.stored(1, 0xff_ffff)]).toEqual([1, 1, 0])
})

it('grows with the record numbers', () => {
  const marks = new ShardMarks(2)
  marks.noteHanded(1000, 3, 1)
  expect([marks.handed(1000, 3), marks.handed(999, 0)]).toEqual([1, 0])
  expect(marks.bytes).toBeGreaterThan(4000)
})
