import { expect, it } from 'vitest'
import { chunkTag } from '../../../src/events/chunk-tag.ts'
import { NO_ENTRY, TagIndex } from '../../../src/metrics/tag-index.ts'
import { random } from '../../support/random.ts'

// Oracle: a Map from tag to entry.
it.each([1, 2, 3])('finds what a Map finds, through removals and collisions (seed %i)', (seed) => {
  const next = random(seed)
  const capacity = 64
  const tags = new Float64Array(capacity + 1) // the last one is what is asked for
  const index = new TagIndex(tags)
  const oracle = new Map<number, number>()
  const free = Array.from({ length: capacity }, (_, i) => i)
  // Low samples only, as a history keeps them once its threshold has fallen.
  const universe = Array.from({ length: 4_000 }, (_, i) => chunkTag(i, 0, 0)).filter((tag) => tag % 2 ** 32 < 2 ** 27)
  expect(universe.length).toBeGreaterThan(70)
  for (let step = 0; step < 20_000; step += 1) {
    const tag = universe[next(universe.length)]!
    const entry = oracle.get(tag)
    tags[capacity] = tag
    expect(index.find(capacity)).toBe(entry ?? NO_ENTRY)
    if (entry !== undefined) {
      index.remove(entry)
      oracle.delete(tag)
      free.push(entry)
    } else if (free.length > 0) {
      const taken = free.pop()!
      tags[taken] = tag
      index.insert(taken)
      oracle.set(tag, taken)
    }
  }
})
