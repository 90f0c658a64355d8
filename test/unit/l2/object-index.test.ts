import { describe, expect, it } from 'vitest'
import { keyWords } from '../../../src/l2/key-words.ts'
import { NO_NODE, ObjectIndex } from '../../../src/l2/object-index.ts'
import { sortByStamp } from '../../../src/l2/sort-by-stamp.ts'
import { chainBatch, SPACE } from '../../support/l2-objects.ts'
import { random } from '../../support/random.ts'

function keysOf(chain: number, from: number, to: number) {
  const batch = chainBatch(SPACE, chain, from, to)
  return { hashes: keyWords(batch.hashes), parents: keyWords(batch.parents), count: to - from }
}

/** Holds chunks [from, to) of a chain, as an adapter's store would. */
function hold(index: ObjectIndex, chain: number, from: number, to: number, space = 0): void {
  const { hashes, parents, count } = keysOf(chain, from, to)
  for (let key = 0; key < count; key += 1) {
    if (!index.isHeld(index.find(space, hashes, key))) index.publish(index.begin(space, hashes, parents, key, 10))
  }
  index.refresh(space, hashes, parents, count)
}

function evict(index: ObjectIndex): number {
  const victim = index.victim()
  index.leave(victim)
  index.gone(victim)
  return victim
}

describe('ObjectIndex', () => {
  it('counts what is pending apart from what is held', () => {
    const index = new ObjectIndex()
    const { hashes, parents } = keysOf(1, 0, 1)
    const node = index.begin(0, hashes, parents, 0, 10)
    expect([index.heldBytes, index.pendingBytes, index.objects]).toEqual([0, 10, 0])
    index.publish(node)
    expect([index.heldBytes, index.pendingBytes, index.objects]).toEqual([10, 0, 1])
    index.leave(node)
    expect(index.heldBytes).toBe(10)
    index.gone(node)
    expect([index.heldBytes, index.objects]).toEqual([0, 0])
    index.verify()
  })

  it('does not pick the parent of an object that is being written', () => {
    const index = new ObjectIndex()
    hold(index, 1, 0, 1)
    const { hashes, parents } = keysOf(1, 1, 2)
    const node = index.begin(0, hashes, parents, 0, 10)
    expect(index.victim()).toBe(NO_NODE)
    index.cancel(node)
    expect(index.victim()).not.toBe(NO_NODE)
  })

  it('links a parent that is stored after its child', () => {
    const index = new ObjectIndex()
    hold(index, 1, 1, 2)
    hold(index, 1, 0, 1)
    const { hashes } = keysOf(1, 0, 2)
    expect(index.victim()).toBe(index.find(0, hashes, 1))
    index.verify()
  })

  it('keeps the same hash in two spaces apart', () => {
    const index = new ObjectIndex()
    hold(index, 1, 0, 1, 0)
    const { hashes } = keysOf(1, 0, 1)
    expect(index.isHeld(index.find(1, hashes, 0))).toBe(false)
  })

  it('puts objects in the order of their stamps, children before parents', () => {
    const index = new ObjectIndex()
    hold(index, 1, 0, 3)
    hold(index, 2, 0, 1)
    const one = keysOf(1, 0, 3)
    const nodes = [0, 1, 2].map((key) => index.find(0, one.hashes, key))
    const other = index.find(0, keysOf(2, 0, 1).hashes, 0)
    index.setStamp(nodes[0]!, 5)
    index.setStamp(nodes[1]!, 50)
    index.setStamp(nodes[2]!, 10)
    index.setStamp(other, 20)
    sortByStamp(index)
    expect(index.held()).toEqual([nodes[2], other, nodes[1], nodes[0]])
  })

  // Oracle: recency of a chunk = the last step that stored or loaded it or a descendant of it.
  it.each([1, 2, 3, 4])('evicts in the order of exact leaf-first LRU (seed %i)', (seed) => {
    const next = random(seed)
    const index = new ObjectIndex(16)
    const lastUse = new Map<string, number>()
    for (let step = 1; step <= 1500; step += 1) {
      const chain = next(12)
      const to = 1 + next(8)
      if (next(3) > 0 || lastUse.size === 0) {
        hold(index, chain, 0, to)
        for (let at = 0; at < to; at += 1) lastUse.set(`${chain}:${at}`, step)
      } else {
        const victim = Buffer.from(Uint32Array.from(index.hashOf(index.victim())).buffer).toString('hex')
        const isLeaf = (name: string) => {
          const [own, at] = name.split(':').map(Number) as [number, number]
          return !lastUse.has(`${own}:${at + 1}`)
        }
        const leaves = [...lastUse].filter(([name]) => isLeaf(name)).sort((one, other) => one[1] - other[1])
        const [name] = leaves[0]!
        const [own, at] = name.split(':').map(Number) as [number, number]
        expect(victim).toBe(Buffer.from(chainBatch(SPACE, own, at, at + 1).hashes).toString('hex'))
        evict(index)
        lastUse.delete(name)
      }
      if (step % 10 === 0) index.verify()
      expect(index.objects).toBe(lastUse.size)
    }
  })
})
