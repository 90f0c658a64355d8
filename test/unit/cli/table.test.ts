import { expect, it } from 'vitest'
import { textTable, WIDTH_COLUMNS, wrapText } from '../../../src/cli/table.ts'

it('lines columns up, numbers to the right', () => {
  const columns = [{ title: 'name' }, { title: 'count', align: 'right' as const }]
  expect(
    textTable(columns, [
      ['hits', '7'],
      ['references', '1,024'],
    ]),
  ).toBe(['name        count', '----------  -----', 'hits            7', 'references  1,024'].join('\n'))
})

it('breaks a wrapping column, so that no line is wider than the limit', () => {
  const text = textTable([{ title: 'a' }, { title: 'b', wraps: true }], [['x'.repeat(20), 'word '.repeat(60).trim()]])
  const lines = text.split('\n')
  expect(lines.length).toBeGreaterThan(4)
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(WIDTH_COLUMNS)
})

it('cuts with an ellipsis what cannot wrap', () => {
  const [, , row] = textTable([{ title: 'a' }, { title: 'b' }], [['x'.repeat(90), 'y'.repeat(90)]]).split('\n')
  expect(row!.length).toBeLessThanOrEqual(WIDTH_COLUMNS)
  expect(row).toContain('…')
})

it('wraps at spaces and leaves a long word whole', () => {
  expect(wrapText('one two three', 7)).toEqual(['one two', 'three'])
  expect(wrapText('extraordinary', 5)).toEqual(['extraordinary'])
})

it('lets no control character of a cell reach the terminal', () => {
  const text = textTable([{ title: 'salt' }], [['a\u001b[31mb\u009b\n']])
  expect(text).toContain('a?[31mb??')
})
