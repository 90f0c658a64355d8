import { expect, it } from 'vitest'
import { CHILDREN, CHUNK_WORDS, ChunkTable, FIRST_SHARD, HOLDS, NO_CHUNK, PARENT } from '../../src/l1/chunk-table.ts'
import { HoldTree } from '../../src/l1/holds.ts'
import { AdaptivePolicy } from '../../src/l1/policies/adaptive.ts'
import { AGE_BUCKETS, ageBucket, REUSE_CLASSES } from '../../src/l1/policies/reuse-hazard.ts'
import { ReuseJudge } from '../../src/l1/policies/reuse-judge.ts'
import { UsePrints } from '../../src/l1/policies/use-prints.ts'
import { chainOf } from '../support/l1.ts'
import { random } from '../support/random.ts'

/** No more than are passed over in the search for the newest leaf. */
const CHUNKS = 64
const STEPS = 4_000

/** A judge that has decided, by worths that nobody learnt. */
class FixedJudge extends ReuseJudge {
  readonly #worth: Float64Array
  readonly #isByWorth: boolean

  constructor(worth: Float64Array | null) {
    super()
    this.#worth = worth ?? new Float64Array(REUSE_CLASSES * AGE_BUCKETS)
    this.#isByWorth = worth !== null
  }

  override get worth(): Float64Array {
    return this.#worth
  }

  override get isByWorth(): boolean {
    return this.#isByWorth
  }
}

interface Chunk {
  times: number
  /** 0, 1, 2 by length; 3 = none. */
  pause: number
  stamp: number
  isNew: boolean
  hadChild: boolean
}

/** The end of a class that chunks leave from: as long as it lasts, it is asked first. */
interface Hand {
  readonly reuseClass: number
  readonly isNewest: boolean
  readonly second: number
  left: number
}

/** The policy, with all that happens to it written down beside it in plain objects. */
class Scene {
  readonly table = new ChunkTable(4 * CHUNKS, [1, 2])
  readonly policy: AdaptivePolicy
  readonly holds: HoldTree
  readonly chunks = new Map<number, Chunk>()
  readonly #judge: FixedJudge
  readonly #evicted = new UsePrints(this.table.words, 2 * this.table.capacity)
  #now = 0
  #hand: Hand | null = null
  /** The parent of the chunk that left last. */
  #above = NO_CHUNK

  constructor(worth: Float64Array | null) {
    this.#judge = new FixedJudge(worth)
    this.policy = new AdaptivePolicy(this.table, this.#judge)
    const heard = {
      name: 'heard',
      bytes: 0,
      admit: (id: number) => {
        const parent = this.chunks.get(this.word(id, PARENT))
        const goesOn = parent !== undefined && (parent.isNew || !parent.hadChild)
        const pause = goesOn ? parent.pause : 3
        if (parent !== undefined) parent.hadChild = true
        this.chunks.set(id, { times: this.#evicted.take(id), pause, stamp: 0, isNew: true, hadChild: false })
        this.policy.admit(id)
      },
      hold: (id: number) => this.policy.hold(id),
      free: (id: number) => {
        Object.assign(this.chunks.get(id)!, { stamp: ++this.#now, isNew: false })
        this.policy.free(id)
      },
      touch: (id: number) => {
        this.touched(this.chunks.get(id)!)
        if (this.word(id, HOLDS) === 0) this.chunks.get(id)!.stamp = ++this.#now
        this.policy.touch(id)
      },
      ripen: (id: number) => this.policy.ripen(id),
      forget: (id: number, isEvicted: boolean) => this.policy.forget(id, isEvicted),
      victim: () => this.policy.victim(),
      verify: () => this.policy.verify(),
    }
    this.holds = new HoldTree(this.table, heard, () => {
      throw new Error('a chunk with a shard left by itself')
    })
  }

  word(id: number, field: number): number {
    return this.table.words[id * CHUNK_WORDS + field]!
  }

  find(path: readonly number[]): number {
    return this.table.find(0, chainOf(path).words, (path.length - 1) * 8)
  }

  request(path: readonly number[]): void {
    const chain = chainOf(path)
    const ids: number[] = []
    for (let index = 0; index < chain.count; index += 1) {
      let id = this.table.find(0, chain.words, index * 8)
      if (id !== NO_CHUNK) {
        this.holds.hold(id)
        this.touchHeld(id)
      } else {
        if (this.chunks.size === CHUNKS && !this.evict(true)) break
        id = this.table.insert(0, chain.words, index * 8)
        const parent = ids.at(-1) ?? NO_CHUNK
        this.table.words[id * CHUNK_WORDS + FIRST_SHARD] = 1
        this.holds.bear(id, parent)
        if (parent !== NO_CHUNK) this.table.words[parent * CHUNK_WORDS + CHILDREN]! += 1
      }
      ids.push(id)
    }
    for (const id of ids.reverse()) this.holds.drop(id)
  }

  touchHeld(id: number): void {
    this.touched(this.chunks.get(id)!)
    this.policy.touch(id)
  }

  touched(chunk: Chunk): void {
    const pause = (this.#now - chunk.stamp) / this.chunks.size
    chunk.pause = pause < 1 / 4 ? 0 : pause < 1 / 2 ? 1 : 2
    chunk.times = Math.min(3, chunk.times + 1)
  }

  /** The victim by the definition, from nothing but what was written down. */
  expectedVictim(): number {
    const leaves = [...this.chunks].filter(([id]) => this.word(id, HOLDS) === 0 && this.word(id, CHILDREN) === 0)
    const byAge = leaves.sort(([, one], [, other]) => one.stamp - other.stamp)
    if (!this.#judge.isByWorth) return byAge[0]?.[0] ?? NO_CHUNK
    const worthOf = (chunk: Chunk) => {
      return this.#judge.worth[classOf(chunk) * AGE_BUCKETS + ageBucket(this.#now - chunk.stamp)]!
    }
    const hand = this.#hand
    if (hand !== null && hand.left > 0) {
      const isNext = ([id, chunk]: [number, Chunk]) => {
        return classOf(chunk) === hand.reuseClass && (!hand.isNewest || id === this.#above)
      }
      const next = byAge.find(isNext)
      if (next !== undefined && worthOf(next[1]) <= hand.second) return next[0]
    }
    const ends = firstOfEachClass(byAge).map((end) => ({ end, isNewest: false }))
    const newest = firstOfEachClass([...byAge].reverse()).sort(([, one], [, other]) => classOf(one) - classOf(other))
    for (const end of newest) ends.push({ end, isNewest: true })
    let victim: [number, Chunk] | undefined
    this.#hand = null
    let [least, second] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]
    for (const { end, isNewest } of ends) {
      const worth = worthOf(end[1])
      if (worth >= least) {
        if (!isNewest) second = Math.min(second, worth)
        continue
      }
      second = least
      least = worth
      victim = end
      this.#hand = { reuseClass: classOf(end[1]), isNewest, second, left: 16 }
    }
    if (this.#hand !== null) this.#hand = { ...this.#hand, second }
    this.#above = NO_CHUNK
    return victim?.[0] ?? NO_CHUNK
  }

  /** What leaves soon, by one walk from the victim on. */
  walk(): number[] {
    const walked = [this.policy.victim()]
    this.expectedVictim()
    for (let id = this.policy.next(walked[0]!); id !== NO_CHUNK; id = this.policy.next(id)) walked.push(id)
    return walked
  }

  /** The walk names each leaf once, nothing that is held, and of each class the older ones first. */
  checkWalk(): void {
    const walked = this.walk()
    const leaves = [...this.chunks.keys()].filter((id) => this.word(id, HOLDS) === 0 && this.word(id, CHILDREN) === 0)
    if (leaves.length === 0) return
    expect(new Set(walked).size).toBe(walked.length)
    expect(walked.filter((id) => this.word(id, HOLDS) !== 0)).toEqual([])
    expect(leaves.filter((id) => !walked.includes(id))).toEqual([])
    const chunks = walked.slice(1).map((id) => this.chunks.get(id)!)
    for (const [at, chunk] of chunks.entries()) {
      const before = chunks.slice(0, at).filter((one) => !this.#judge.isByWorth || classOf(one) === classOf(chunk))
      expect(before.every(({ stamp }) => stamp < chunk.stamp)).toBe(true)
    }
  }

  /** Evicts or removes the victim. False when there is none. */
  evict(isEvicted: boolean): boolean {
    const id = this.policy.victim()
    expect(id).toBe(this.expectedVictim())
    if (id === NO_CHUNK) return false
    const parent = this.word(id, PARENT)
    if (isEvicted) this.#evicted.add(id, Math.min(3, this.chunks.get(id)!.times + 1))
    this.policy.forget(id, isEvicted)
    this.#above = parent
    if (this.#hand !== null) this.#hand.left -= 1
    this.chunks.delete(id)
    this.table.unhash(id)
    this.table.free(id)
    if (parent === NO_CHUNK) return true
    this.table.words[parent * CHUNK_WORDS + CHILDREN]! -= 1
    if (this.word(parent, CHILDREN) === 0 && this.word(parent, HOLDS) === 0) this.policy.ripen(parent)
    return true
  }
}

/** Worths that fall with age in some classes and grow in the others; the search for the newest leaf relies on one or the other. */
function drawWorth(next: (limit: number) => number): Float64Array {
  const worth = new Float64Array(REUSE_CLASSES * AGE_BUCKETS)
  for (let first = 0; first < worth.length; first += AGE_BUCKETS) {
    const ages = worth
      .subarray(first, first + AGE_BUCKETS)
      .map(() => next(1000))
      .sort()
    worth.set(next(2) === 0 ? ages : ages.reverse(), first)
  }
  return worth
}

function classOf(chunk: Chunk): number {
  return chunk.times + 4 * chunk.pause
}

function firstOfEachClass(chunks: readonly [number, Chunk][]): [number, Chunk][] {
  const classes = chunks.map(([, chunk]) => classOf(chunk))
  return chunks.filter((_, at) => classes.indexOf(classes[at]!) === at)
}

const CASES = [1, 2, 3].flatMap((seed) => [true, false].map((isByWorth) => ({ seed, isByWorth })))

it.each(CASES)(
  'names the victim that its definition names (seed $seed, by worth: $isByWorth)',
  ({ seed, isByWorth }) => {
    const next = random(seed)
    const worth = drawWorth(next)
    const scene = new Scene(isByWorth ? worth : null)
    const held: number[] = []
    let path: number[] = []
    let evictions = 0
    for (let step = 0; step < STEPS; step += 1) {
      const action = next(8)
      if (action < 4 || path.length > 40) path = Array.from({ length: 1 + next(5) }, () => next(5))
      else path = [...path, next(3)]
      if (action < 6) scene.request(path)
      else if (action === 6) {
        const id = scene.find(path.slice(0, 1 + next(path.length)))
        if (id !== NO_CHUNK && next(2) === 0) {
          scene.holds.hold(id)
          held.push(id)
        } else if (held.length > 0) scene.holds.drop(held.splice(next(held.length), 1)[0]!)
      } else if (next(2) === 0) scene.holds.touch(scene.find(path))
      else evictions += scene.evict(next(4) !== 0) ? 1 : 0
      scene.policy.verify()
      expect(scene.policy.victim()).toBe(scene.expectedVictim())
      if (step % 20 === 0) scene.checkWalk()
    }
    expect(evictions).toBeGreaterThan(50)
    for (const id of held) scene.holds.drop(id)
    while (scene.evict(true)) scene.policy.verify()
    expect(scene.chunks.size).toBe(0)
  },
)

it('knows chunks that come before their parents, as after a restart', () => {
  const scene = new Scene(null)
  const path = Array.from({ length: 20 }, () => 1)
  scene.request(path)
  scene.request(path)
  const again = new AdaptivePolicy(scene.table, new FixedJudge(null))
  for (let length = path.length; length > 0; length -= 1) {
    const id = scene.find(path.slice(0, length))
    again.admit(id)
    again.free(id)
  }
  again.verify()
  const classes = path.map((_, index) => again.classOf(scene.find(path.slice(0, index + 1))))
  expect(classes).toEqual(path.map(() => 12))
  expect(again.victim()).toBe(scene.find(path))
})

it('takes a chunk for what goes on with a prompt, or for what branches off', () => {
  const scene = new Scene(null)
  // Times of 0 to 3, and 4 for each step of the pause.
  const classAt = (path: readonly number[]) => scene.policy.classOf(scene.find(path))
  for (let other = 100; other < 140; other += 1) scene.request([other])
  scene.request([1, 1])
  scene.request([1, 1, 1])
  expect([classAt([1]), classAt([1, 1]), classAt([1, 1, 1])]).toEqual([1, 1, 0])
  scene.request([1, 2])
  expect(classAt([1, 2])).toBe(12)
})
