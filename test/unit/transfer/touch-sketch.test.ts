import { expect, it } from 'vitest'
import { TouchSketch } from '../../../src/transfer/touch-sketch.ts'
import { random } from '../../support/random.ts'

// Oracle: a map. The sketch may say more, never less, within its window.
it.each([1, 2, 3])('never counts too little, and seldom too much (seed %i)', (seed) => {
  const next = random(seed)
  const chunks = 1000
  const sketch = new TouchSketch(chunks)
  const words = Uint32Array.from({ length: chunks * 8 }, () => next(2 ** 32))
  const counts = new Uint32Array(chunks)
  let over = 0
  for (let touch = 0; touch < 4 * chunks; touch += 1) {
    const chunk = Math.min(next(chunks), next(chunks))
    counts[chunk]! += 1
    const told = sketch.touch(chunk % 3, words, chunk * 8)
    expect(told).toBe(sketch.count(chunk % 3, words, chunk * 8))
    expect(told).toBeGreaterThanOrEqual(Math.min(counts[chunk]!, 255))
    if (told > counts[chunk]!) over += 1
  }
  expect(over / (4 * chunks)).toBeLessThan(0.05)
})

it('forgets what was not asked for during two windows', () => {
  const sketch = new TouchSketch(16)
  const words = Uint32Array.from({ length: 8 * 200 }, (_, at) => Math.imul(at + 1, 0x9e3779b1) >>> 0)
  sketch.touch(0, words, 0)
  sketch.touch(0, words, 0)
  expect(sketch.count(0, words, 0)).toBe(2)
  let touches = 2
  while (sketch.count(0, words, 0) > 0) {
    sketch.touch(0, words, 8 * (1 + (touches % 3)))
    touches += 1
    expect(touches).toBeLessThan(1000)
  }
  expect(touches).toBeGreaterThan(64)
})

it('keeps its memory bounded whatever it is asked for', () => {
  expect(new TouchSketch(100).bytes).toBe(2 * 1024)
  expect(new TouchSketch(100_000_000).bytes).toBe(2 * 2 ** 24)
})
