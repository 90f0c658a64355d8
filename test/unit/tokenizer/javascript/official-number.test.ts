import { expect, it } from 'vitest'
import { officialNumber } from '../../../../src/tokenizer/javascript/official-number.ts'

it.each([
  ['0', 0],
  ['-12', -12],
  ['-3.5', -3.5],
  ['1e3', 1000],
  ['25e-2', 0.25],
  ['18446744073709551615', 2 ** 64],
  ['18446744073709551616', Number(1844674407370955161n) * 10],
  ['0.000', 0],
])('reads %s', (source, value) => {
  expect(officialNumber(source)).toBe(value)
})

it('rounds the digits, and then what the power of ten makes of them', () => {
  const source = '-8.123456789012345678'
  expect(officialNumber(source)).toBe(-(Number(8123456789012345678n) / 1e18))
})
