import { expect, it } from 'vitest'
import { ChunkHasher } from '../../../src/core/chunk-hash.ts'
import { HashChain } from '../../../src/core/hash-chain.ts'
import { HashQueue, SLICE_TOKENS_MAX } from '../../../src/engine/hash-queue.ts'
import { GatedLane } from '../../support/gated-lane.ts'
import { random } from '../../support/random.ts'

const hasher = await ChunkHasher.create()
const CHUNK = SLICE_TOKENS_MAX / 4
const ALICE = { name: 'alice' }
const BOB = { name: 'bob' }

/** A prompt of so many slices of four chunks; the first token of each slice tells both. */
function prompt(name: number, slices: number): Uint32Array {
  return Uint32Array.from(
    { length: slices * SLICE_TOKENS_MAX },
    (_, at) => name * 100 + Math.floor(at / SLICE_TOKENS_MAX),
  )
}

function oracle(tokens: Uint32Array, chunkTokens = CHUNK): string {
  const chain = new HashChain(0)
  hasher.extend(chain, tokens, chunkTokens)
  return hashesOf(chain)
}

function hashesOf(chain: HashChain): string {
  return Array.from({ length: chain.count }, (_, index) => chain.hex(index)).join(' ')
}

function queueOn(...lanes: GatedLane[]): HashQueue {
  return new HashQueue(hasher.root, lanes, (_lane, error) => {
    throw error
  })
}

it('hashes a prompt slice by slice to the chain of the whole', async () => {
  const lane = new GatedLane()
  const chain = new HashChain(0)
  const done = queueOn(lane).extend(chain, prompt(1, 3), CHUNK, ALICE)
  for (const count of [4, 8, 12]) {
    await lane.pass()
    expect(chain.count).toBe(count)
  }
  expect(await done).toBe(true)
  expect(lane.slices).toEqual([100, 101, 102])
  expect(hashesOf(chain)).toBe(oracle(prompt(1, 3)))
})

it('takes askers in turn, and the prompts of one asker in turn', async () => {
  const lane = new GatedLane()
  const queue = queueOn(lane)
  for (const name of [1, 2]) void queue.extend(new HashChain(0), prompt(name, 3), CHUNK, ALICE)
  for (const name of [3, 4]) void queue.extend(new HashChain(0), prompt(name, 1), CHUNK, BOB)
  for (let slice = 0; slice < 8; slice += 1) await lane.pass()
  expect(lane.slices).toEqual([100, 200, 300, 101, 400, 201, 102, 202])
  expect(queue.count).toBe(0)
})

it('lets a prompt wait for one slice of a longer one, however long that is', async () => {
  const lane = new GatedLane()
  const queue = queueOn(lane)
  void queue.extend(new HashChain(0), prompt(1, 40), CHUNK, ALICE)
  await lane.pass()
  let isDone = false
  void queue.extend(new HashChain(0), prompt(2, 1), CHUNK, BOB).then(() => {
    isDone = true
  })
  await lane.pass() // the slice that was under way
  expect(isDone).toBe(false)
  await lane.pass()
  expect(isDone).toBe(true)
  expect(lane.slices.slice(0, 4)).toEqual([100, 101, 200, 102])
})

it('stops at a slice when it is cancelled, and goes on from there when asked again', async () => {
  const lane = new GatedLane()
  const queue = queueOn(lane)
  const chain = new HashChain(0)
  const cancelled = queue.extend(chain, prompt(1, 3), CHUNK, ALICE)
  await lane.pass()
  queue.cancel(chain)
  expect(await cancelled).toBe(false)
  expect(queue.count).toBe(0)
  await lane.pass() // of the slice that was under way nothing is taken
  expect(chain.count).toBe(4)
  const again = queue.extend(chain, prompt(1, 3), CHUNK, ALICE)
  lane.openForGood()
  expect(await again).toBe(true)
  expect(lane.slices).toEqual([100, 101, 101, 102])
  expect(hashesOf(chain)).toBe(oracle(prompt(1, 3)))
})

it('forgets the prompts of an asker who left, and nobody elses', async () => {
  const lane = new GatedLane()
  const queue = queueOn(lane)
  const left = [1, 2, 3].map((name) => queue.extend(new HashChain(0), prompt(name, 9), CHUNK, ALICE))
  const stays = queue.extend(new HashChain(0), prompt(4, 1), CHUNK, BOB)
  queue.leave(ALICE)
  expect(await Promise.all(left)).toEqual([false, false, false])
  expect(queue.count).toBe(1)
  await lane.pass()
  await lane.pass()
  expect(await stays).toBe(true)
  expect(lane.slices).toEqual([100, 400])
})

it('refuses more prompts of one asker than it keeps, and takes those of others', async () => {
  const lane = new GatedLane()
  const queue = queueOn(lane)
  const same = prompt(1, 1)
  for (let name = 0; name < 1_024; name += 1) void queue.extend(new HashChain(0), same, CHUNK, ALICE)
  await expect(queue.extend(new HashChain(0), prompt(2, 1), CHUNK, ALICE)).rejects.toMatchObject({
    code: 'TOO_MANY_PROMPTS',
  })
  void queue.extend(new HashChain(0), prompt(3, 1), CHUNK, BOB)
  expect(queue.count).toBe(1_025)
  await lane.pass()
  await lane.pass()
  expect(lane.slices).toEqual([100, 100, 300])
})

it('does the slice of a lost lane again on the one that replaces it', async () => {
  const [lost, spare] = [new GatedLane(), new GatedLane()]
  const queue = new HashQueue(hasher.root, [lost], () => spare)
  const chain = new HashChain(0)
  const done = queue.extend(chain, prompt(1, 3), CHUNK, ALICE)
  await lost.pass()
  spare.openForGood()
  await lost.lose()
  expect(await done).toBe(true)
  expect(hashesOf(chain)).toBe(oracle(prompt(1, 3)))
})

it('fails a prompt when its lane is lost and nothing replaces it', async () => {
  const lane = new GatedLane()
  const queue = queueOn(lane)
  const done = queue.extend(new HashChain(0), prompt(1, 3), CHUNK, ALICE)
  void lane.lose()
  await expect(done).rejects.toThrow('the lane is lost')
  expect(queue.count).toBe(0)
})

it.each([1, 2, 3, 4, 5])('gives the same chains as one hasher, whatever comes and goes (seed %i)', async (seed) => {
  const next = random(seed)
  const lanes = Array.from({ length: 1 + next(3) }, () => new GatedLane())
  const queue = queueOn(...lanes)
  const askers = [{}, {}, {}]
  const prompts = Array.from({ length: 30 }, () => {
    const chunkTokens = [64, 1_000, 40_000][next(3)]!
    const tokens = Uint32Array.from({ length: next(130_000) }, () => next(2 ** 32))
    return { chain: new HashChain(0), tokens, chunkTokens, expected: oracle(tokens, chunkTokens) }
  })
  const busy = new Set<HashChain>()
  for (let step = 0; step < 400; step += 1) {
    const { chain, tokens, chunkTokens } = prompts[next(prompts.length)]!
    const hasMore = chain.count < Math.floor(tokens.length / chunkTokens)
    if (busy.has(chain)) {
      if (next(4) === 0) queue.cancel(chain)
    } else if (hasMore) {
      busy.add(chain)
      void queue.extend(chain, tokens, chunkTokens, askers[next(3)]!).then(() => busy.delete(chain))
    }
    if (next(50) === 0) queue.leave(askers[next(3)]!)
    await lanes[next(lanes.length)]!.pass()
    expect(queue.count).toBe(busy.size)
  }
  for (const lane of lanes) lane.openForGood()
  for (const { chain, tokens, chunkTokens, expected } of prompts) {
    while (busy.has(chain)) await new Promise<void>((resolve) => setImmediate(resolve))
    const chunks = Math.floor(tokens.length / chunkTokens)
    if (chain.count < chunks) await queue.extend(chain, tokens, chunkTokens, ALICE)
    expect(hashesOf(chain)).toBe(expected)
  }
})
