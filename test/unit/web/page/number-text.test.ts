import { expect, it } from 'vitest'
import { bytesText, countText, percentText, rateText } from '../../../../src/web/page/number-text.js'

it.each([
  [0, '0 B'],
  [1, '1 B'],
  [1023, '1023 B'],
  [1024, '1 KiB'],
  [1536, '1.50 KiB'],
  [64 * 1024 ** 2, '64 MiB'],
  [12.34 * 1024 ** 3, '12.3 GiB'],
  [2 ** 60, '1024 PiB'],
])('%d bytes read %s', (bytes, text) => {
  expect(bytesText(bytes)).toBe(text)
})

it.each([
  [0, '0'],
  [999, '999'],
  [1000, '1 k'],
  [1_234_567, '1.23 M'],
  [0.5, '0.50'],
  [null, '–'],
])('a count of %s reads %s', (count, text) => {
  expect(countText(count)).toBe(text)
})

it('shares and rates have a dash where there is nothing to tell', () => {
  expect([percentText(0.4321), percentText(0), percentText(null)]).toEqual(['43.2 %', '0.0 %', '–'])
  expect([rateText(2.5e9), rateText(0), rateText(null)]).toEqual(['2.50 GB/s', '0 B/s', '–'])
})
