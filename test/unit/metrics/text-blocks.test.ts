import { expect, it } from 'vitest'
import { ByteText } from '../../../src/metrics/byte-text.ts'
import { Exposition } from '../../../src/metrics/exposition.ts'
import { TextBlocks } from '../../../src/metrics/text-blocks.ts'
import { recordEverything } from '../../support/full-cells.ts'

const BLOCK_BYTES = new TextBlocks().take().length

it('hands out again what came back, each block once', () => {
  const blocks = new TextBlocks()
  const [first, second] = [blocks.take(), blocks.take()]
  blocks.give([first.subarray(0, 10), first.subarray(10, 20), second])
  const again = [blocks.take().buffer, blocks.take().buffer]
  expect(new Set(again).isSubsetOf(new Set([first.buffer, second.buffer]))).toBe(true)
  expect(again[0]).not.toBe(again[1])
  expect(again).not.toContain(blocks.take().buffer)
})

it('keeps the blocks of one rendering, the largest', () => {
  const blocks = new TextBlocks()
  const [small, large] = [[blocks.take()], [blocks.take(), blocks.take()]]
  blocks.give(small)
  blocks.give(large)
  blocks.give([blocks.take()]) // one of `large`, which is the only spare one left beside another
  const taken = new Set([blocks.take().buffer, blocks.take().buffer])
  expect(taken.has(small[0]!.buffer)).toBe(false)
})

it('neither keeps memory of other lengths nor hands out less than is asked for', () => {
  const blocks = new TextBlocks()
  const long = blocks.take(BLOCK_BYTES + 1)
  expect(long.length).toBe(BLOCK_BYTES + 1)
  blocks.give([long, Buffer.from('a piece of a shared pool')])
  expect(blocks.take().length).toBe(BLOCK_BYTES)
})

it('writes a text over several blocks without a line in two of them, and a text longer than a block', () => {
  const text = new ByteText(new TextBlocks())
  const lead = Buffer.from(`${'x'.repeat(1_000)} `)
  const pieces: Buffer[] = []
  for (let line = 0; line < 3_000; line += 1) {
    text.line(lead, 0, lead.length, line)
    if (line % 700 === 0) pieces.push(...text.take())
  }
  text.text('y'.repeat(BLOCK_BYTES * 2))
  text.text('end\n')
  pieces.push(...text.take())
  const lines = Array.from({ length: 3_000 }, (_, line) => `${lead}${line}\n`).join('')
  expect(Buffer.concat(pieces).toString()).toBe(`${lines}${'y'.repeat(BLOCK_BYTES * 2)}end\n`)
  for (const piece of pieces.slice(0, 4)) expect(piece.toString()).toMatch(/^x[\s\S]*\n$/)
  expect(text.take()).toEqual([])
})

it('renders into the memory of the rendering before, once that was released', async () => {
  const exposition = new Exposition(recordEverything().reader, null)
  const first = await exposition.render('text')
  const body = first.body
  const second = await exposition.render('text')
  expect(second.pieces[0]!.buffer).not.toBe(first.pieces[0]!.buffer)
  expect(first.body.equals(body)).toBe(true)
  first.release()
  const third = await exposition.render('text')
  expect(third.pieces[0]!.buffer).toBe(first.pieces[0]!.buffer)
  expect(third.body.toString().replaceAll(/ \S+\n/g, '\n')).toBe(body.toString().replaceAll(/ \S+\n/g, '\n'))
})

it('waits with the memory of a rendering for its compressor', async () => {
  const exposition = new Exposition(recordEverything().reader, null)
  const first = await exposition.render('text')
  const gzipped = first.gzipped()
  first.release()
  const early = await exposition.render('text')
  expect(early.pieces[0]!.buffer).not.toBe(first.pieces[0]!.buffer)
  await gzipped
  await Promise.resolve()
  expect((await exposition.render('text')).pieces[0]!.buffer).toBe(first.pieces[0]!.buffer)
})
