import { expect, it } from 'vitest'
import { CONTEXT_WORDS, readTraceparent } from '../../../src/events/trace-context.ts'

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const PARENT = '00f067aa0ba902b7'

function read(text: string): number[] | null {
  const words = new Uint32Array(CONTEXT_WORDS)
  return readTraceparent(text, words) ? [...words] : null
}

it('reads the example of the specification', () => {
  expect(read(`00-${TRACE}-${PARENT}-01`)).toEqual([
    0x4bf92f35, 0x77b34da6, 0xa3ce929d, 0x0e0e4736, 0x00f067aa, 0x0ba902b7, 1,
  ])
})

it.each([
  ['flags that are not known yet', `00-${TRACE}-${PARENT}-ff`, 0xff],
  ['not recorded', `00-${TRACE}-${PARENT}-00`, 0],
  ['a later version', `cc-${TRACE}-${PARENT}-01`, 1],
  ['a later version with more', `cc-${TRACE}-${PARENT}-01-what-the-future-will-be-like`, 1],
])('takes %s', (_, text, flags) => {
  expect(read(text)?.at(-1)).toBe(flags)
})

it.each([
  ['nothing', ''],
  ['version 255', `ff-${TRACE}-${PARENT}-01`],
  ['version 0 with more', `00-${TRACE}-${PARENT}-01-more`],
  ['a later version with more but no dash', `cc-${TRACE}-${PARENT}-01.more`],
  ['a trace id of zeros', `00-${'0'.repeat(32)}-${PARENT}-01`],
  ['a parent id of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
  ['capitals', `00-${TRACE.toUpperCase()}-${PARENT}-01`],
  ['a digit that is none', `00-${TRACE.slice(1)}g-${PARENT}-01`],
  ['flags that are none', `00-${TRACE}-${PARENT}-0x`],
  ['a version that is none', `.0-${TRACE}-${PARENT}-01`],
  ['too few digits', `00-${TRACE.slice(1)}-${PARENT}-01`],
  ['other dashes', `00_${TRACE}_${PARENT}_01`],
  ['two headers in one', `00-${TRACE}-${PARENT}-01, 00-${TRACE}-${PARENT}-01`],
  ['something endless', `cc-${TRACE}-${PARENT}-01-${'x'.repeat(100_000)}`],
  ['words that look like minus', `00-${TRACE}-${PARENT}-\u0130\u0131`],
])('does not take %s', (_, text) => {
  expect(read(text)).toBeNull()
})
