import { expect, it } from 'vitest'
import { shortBytes, shortDuration, shortNumber } from '../../../src/cli/short-texts.ts'

it('shortens numbers, bytes and durations', () => {
  expect([0, 12, 12.345, 0.5, 999, 999.4].map(shortNumber)).toEqual(['0', '12', '12.3', '0.500', '999', '999'])
  expect([1000, 1234, 5_600_000, 7e9].map(shortNumber)).toEqual(['1.00k', '1.23k', '5.60M', '7.00G'])
  expect([0, 1023, 1024, 10 * 1024, 2 ** 30 * 100].map(shortBytes)).toEqual([
    '0 B',
    '1023 B',
    '1.00 KiB',
    '10.0 KiB',
    '100 GiB',
  ])
  expect([0.2, 59, 125, 3840].map(shortDuration)).toEqual(['1 s', '59 s', '2 min 5 s', '1 h 4 min'])
})
