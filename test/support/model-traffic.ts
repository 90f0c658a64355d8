import { HashChain } from '../../src/core/hash-chain.ts'
import type { SpaceId } from '../../src/core/ids.ts'
import type { Engine } from '../../src/engine/engine.ts'
import type { Lookup } from '../../src/engine/lookup.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { traceKeys } from '../../src/replay/trace-keys.ts'

/** The prompts of one model. */
export interface ModelPrompts {
  readonly space: SpaceId
  readonly prompts: number
  /** Chunks of the longest prompt. */
  readonly chunksMax: number
}

export interface Reservation {
  readonly askedBytes: number
  readonly grantedBytes: number
  /** By the eviction counters, while the call ran. */
  readonly evictedBytes: number
}

const PROMPTS_OF_A_GROUP = 8
const SKEW = 0.8
const UNIT = 2 ** 30

/** Draws 0..count-1, where r comes in proportion to 1 / (r + 1)^skew. */
export function zipf(count: number, next: (limit: number) => number, skew = SKEW): () => number {
  const sums = new Float64Array(count)
  let sum = 0
  for (let rank = 0; rank < count; rank += 1) {
    sum += 1 / (rank + 1) ** skew
    sums[rank] = sum
  }
  return () => {
    const drawn = (next(UNIT) / UNIT) * sum
    let low = 0
    for (let high = count - 1; low < high; ) {
      const middle = (low + high) >> 1
      if (sums[middle]! > drawn) high = middle
      else low = middle + 1
    }
    return low
  }
}

/** Bytes evicted from L1 so far, by its counters. Each tenant of the engine has one space. */
export function evictedBytes({ l1, cells }: Engine): number {
  let bytes = 0
  for (let space = 0; space < l1.spaces.count; space += 1) {
    const { tenant, shardBytes } = l1.spaces.spec(space as SpaceId)
    bytes += shardBytes * cells.l1Tenants.get(tenant, 'evictedShards')
  }
  return bytes
}

/** Clients of one model that ask for prompts, popular ones far more often, fetch what is there and store the rest. */
export class ModelClient {
  readonly #engine: Engine
  readonly #model: ModelPrompts
  readonly #draw: () => number
  readonly #grants = new SlotList()

  constructor(engine: Engine, model: ModelPrompts, next: (limit: number) => number) {
    this.#engine = engine
    this.#model = model
    this.#draw = zipf(model.prompts, next)
  }

  get space(): SpaceId {
    return this.#model.space
  }

  /** A prompt. Its first quarter at most is that of a group of prompts, the rest its own. */
  chain(): HashChain {
    const { chunksMax } = this.#model
    const prompt = this.#draw()
    const group = Math.floor(prompt / PROMPTS_OF_A_GROUP)
    const length = 1 + ((Math.imul(prompt + 1, 0x9e3779b1) >>> 0) % chunksMax)
    const ids = new Uint32Array(length)
    for (let index = 0; index < length; index += 1) ids[index] = index * 4 < chunksMax ? group : prompt
    const chain = new HashChain(length)
    traceKeys(ids, 0, length, chain)
    return chain
  }

  /** One request. What it reads stays leased until the caller releases the lookup. */
  request(onReserved: (reservation: Reservation) => void): Lookup {
    const engine = this.#engine
    const { space } = this.#model
    const { ranks, shardBytes } = engine.l1.spaces.spec(space)
    const chain = this.chain()
    const lookup = engine.lookup(space, chain, engine.sessions.nextOwner())
    engine.served(lookup, 0, lookup.loadedTo)
    for (let rank = 0; rank < ranks; rank += 1) {
      const before = evictedBytes(engine)
      const owner = engine.sessions.nextOwner()
      const lease = engine.reserve(space, rank, chain, lookup.loadedTo, chain.count, owner, this.#grants)
      onReserved({
        askedBytes: (chain.count - lookup.loadedTo) * shardBytes,
        grantedBytes: this.#grants.count * shardBytes,
        evictedBytes: evictedBytes(engine) - before,
      })
      engine.commit(space, rank, lease)
    }
    return lookup
  }
}
