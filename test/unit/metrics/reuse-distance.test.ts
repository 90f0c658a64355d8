import { expect, it } from 'vitest'
import { chunkTag, SAMPLE_ALL } from '../../../src/events/chunk-tag.ts'
import { StackDistance } from '../../../src/metrics/reuse-distance.ts'
import { random } from '../../support/random.ts'

/** Oracle: the stack as a plain array, most recent first. */
class PlainStack {
  readonly stack: { tag: number; bytes: number }[] = []

  distance(tag: number): { chunks: number; bytes: number } | undefined {
    const place = this.stack.findIndex((chunk) => chunk.tag === tag)
    if (place < 0) return undefined
    return { chunks: place, bytes: this.stack.slice(0, place).reduce((sum, chunk) => sum + chunk.bytes, 0) }
  }

  touch(tag: number, bytes: number): void {
    const place = this.stack.findIndex((chunk) => chunk.tag === tag)
    if (place >= 0) this.stack.splice(place, 1)
    this.stack.unshift({ tag, bytes })
  }
}

it.each([1, 2, 3])('gives exact distances while the history has room (seed %i)', (seed) => {
  const next = random(seed)
  const history = new StackDistance(64) // renumbers every 192 touches
  const oracle = new PlainStack()
  for (let step = 0; step < 5_000; step += 1) {
    const tag = chunkTag(next(60), 0, 0)
    const bytes = 1 + next(1000)
    const expected = oracle.distance(tag)
    expect(history.touch(tag, bytes)).toBe(true)
    expect(history.isSeen).toBe(expected !== undefined)
    if (expected !== undefined) expect({ chunks: history.chunks, bytes: history.bytes }).toEqual(expected)
    oracle.touch(tag, bytes)
    if (step % 50 === 0) history.verify()
  }
  expect(history.rate).toBe(1)
  expect(history.dropped).toBe(0)
})

// Prompts of a random tree, asked tail first. Oracle: all distances against the stack before the prompt, then the touches.
it.each([4, 5, 6])('takes the distances of a prompt against the state before it (seed %i)', (seed) => {
  const next = random(seed)
  const history = new StackDistance(512)
  const oracle = new PlainStack()
  for (let step = 0; step < 1_500; step += 1) {
    const prompt: number[] = []
    for (let depth = 0, node = 1; depth < 1 + next(8); depth += 1) {
      node = node * 2 + next(2)
      prompt.push(chunkTag(node, 0, 0))
    }
    const expected = prompt.map((tag) => oracle.distance(tag))
    history.startBatch()
    for (const [i, tag] of [...prompt.entries()].reverse()) {
      history.touch(tag, 10, true)
      oracle.touch(tag, 10)
      expect(history.isSeen).toBe(expected[i] !== undefined)
      if (history.isSeen) expect({ chunks: history.chunks, bytes: history.bytes }).toEqual(expected[i])
    }
    for (let i = 1; i < expected.length; i += 1) {
      const isOrdered = expected[i] === undefined || expected[i]!.chunks > expected[i - 1]!.chunks
      expect(isOrdered).toBe(true) // prefix semantics follow from the order
    }
    if (step % 50 === 0) history.verify()
  }
})

it.each([7, 8])('stays within its bound and estimates distances past it (seed %i)', (seed) => {
  const next = random(seed)
  const history = new StackDistance(1_000)
  const oracle = new PlainStack()
  let sum = 0
  let samples = 0
  for (let step = 0; step < 20_000; step += 1) {
    const tag = chunkTag(next(4_000), 0, 0)
    const isFollowed = history.touch(tag, 100)
    if (isFollowed && history.isSeen && step > 10_000) {
      const exact = oracle.distance(tag)!
      sum += history.chunks / (exact.chunks + 1)
      samples += 1
    }
    oracle.touch(tag, 100)
    if (step % 500 === 0) history.verify()
  }
  expect(history.size).toBeLessThanOrEqual(1_000)
  expect(history.threshold).toBeLessThan(SAMPLE_ALL)
  expect(history.dropped).toBeGreaterThan(0)
  expect(samples).toBeGreaterThan(1_000)
  expect(sum / samples).toBeGreaterThan(0.9)
  expect(sum / samples).toBeLessThan(1.1)
})

it.each([9, 10])('counts bytes exactly also when a second length comes late (seed %i)', (seed) => {
  const next = random(seed)
  const history = new StackDistance(64)
  const oracle = new PlainStack()
  for (let step = 0; step < 2_000; step += 1) {
    const tag = chunkTag(next(60), 0, 0)
    const bytes = step < 1_000 || next(2) === 0 ? 1_000 : 300
    const expected = oracle.distance(tag)
    history.touch(tag, bytes)
    if (expected !== undefined) expect({ chunks: history.chunks, bytes: history.bytes }).toEqual(expected)
    oracle.touch(tag, bytes)
    if (step % 25 === 0 || (step > 990 && step < 1_010)) history.verify()
  }
})

// 40,000 chunks in turn and again: every distance is 39,999, less than the history reaches back.
it('follows all of the first 1,024 chunks, then as many as reach as deep as is wanted, and keeps that rate', () => {
  const history = new StackDistance(4_096)
  history.depthBytes = 50_000 * 100
  const rates: number[] = []
  for (let round = 0; round < 6; round += 1) {
    for (let id = 0; id < 40_000; id += 1) {
      if (round === 0 && id === 1_024) expect([history.rate, history.size]).toEqual([1, 1_024])
      history.touch(chunkTag(id, 0, 0), 100)
    }
    rates.push(history.rate)
    history.verify()
  }
  expect(rates.every((rate) => rate === rates[0])).toBe(true)
  expect(rates[0]).toBeCloseTo(4_096 / 50_000, 3)
  expect(Math.abs(history.chunks / 39_999 - 1)).toBeLessThan(0.05)
})

// Oracle: the exact distance, which the sample tells within its error: 3 standard deviations of a count of samples.
it.each([11, 12])('forgets what lies deeper than is wanted, and nothing else (seed %i)', (seed) => {
  const next = random(seed)
  const history = new StackDistance(2_048)
  const oracle = new PlainStack()
  const depth = 4_000
  history.depthBytes = depth * 100
  let [near, deep] = [0, 0]
  for (let step = 0; step < 30_000; step += 1) {
    const isNear = next(2) === 0
    const tag = chunkTag(isNear ? next(1_500) : 1_500 + next(60_000), 0, 0)
    const isFollowed = history.touch(tag, 100)
    const exact = isFollowed && step > 15_000 ? oracle.distance(tag) : undefined
    const error = 3 * Math.sqrt(depth / history.rate)
    if (exact !== undefined && exact.chunks < depth - error) {
      expect(history.isSeen).toBe(true)
      expect(Math.abs(history.chunks - exact.chunks)).toBeLessThan(error)
      near += 1
    } else if (exact !== undefined && exact.chunks > depth + error) {
      expect(history.isSeen).toBe(false)
      deep += 1
    }
    oracle.touch(tag, 100)
  }
  history.verify()
  expect(history.size).toBe(2_048)
  expect(near).toBeGreaterThan(1_000)
  expect(deep).toBeGreaterThan(100)
})
