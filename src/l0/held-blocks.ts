import { assert } from '../core/assert.ts'

/** Blocks of one request: pairs of block id and which allocation of it. Grows by doubling. */
export interface Holding {
  pairs: Uint32Array
  count: number
}

type OnPair = (id: number, allocation: number) => unknown

/** Requests at most; the oldest is let go of for a new one. */
const REQUESTS_MAX = 4096
const FIRST_PAIRS = 16

/** Which observed blocks the requests hold that have not ended. Bounded in requests and, by its user, in pairs. */
export class HeldBlocks {
  readonly #requests = new Map<string, Holding>()
  #pairs = 0

  get requests(): number {
    return this.#requests.size
  }

  /** The holding of a request, made at the first call. @param letGo told the pairs of one that makes room. */
  of(requestId: string, letGo: OnPair): Holding {
    const found = this.#requests.get(requestId)
    if (found !== undefined) return found
    if (this.#requests.size >= REQUESTS_MAX) this.end(this.#requests.keys().next().value!, letGo)
    const holding = { pairs: new Uint32Array(2 * FIRST_PAIRS), count: 0 }
    this.#requests.set(requestId, holding)
    return holding
  }

  /** False when there are `pairsMax` already: the block is then not known to be held. */
  add(holding: Holding, id: number, allocation: number, pairsMax: number): boolean {
    if (this.#pairs >= pairsMax) return false
    const at = 2 * holding.count
    if (at === holding.pairs.length) {
      const pairs = new Uint32Array(2 * at)
      pairs.set(holding.pairs)
      holding.pairs = pairs
    }
    holding.pairs[at] = id
    holding.pairs[at + 1] = allocation
    holding.count += 1
    this.#pairs += 1
    return true
  }

  /** Forgets a request, telling each pair. @returns whether it was known. */
  end(requestId: string, onPair: OnPair): boolean {
    const holding = this.#requests.get(requestId)
    if (holding === undefined) return false
    this.#requests.delete(requestId)
    this.#pairs -= holding.count
    eachPair(holding, onPair)
    return true
  }

  clear(): void {
    this.#requests.clear()
    this.#pairs = 0
  }

  forEach(onPair: OnPair): void {
    for (const holding of this.#requests.values()) eachPair(holding, onPair)
  }

  /** For tests. */
  verify(): void {
    let pairs = 0
    for (const { count } of this.#requests.values()) pairs += count
    assert(pairs === this.#pairs, 'held blocks miscounted')
  }
}

function eachPair({ pairs, count }: Holding, onPair: OnPair): void {
  for (let at = 0; at < 2 * count; at += 2) onPair(pairs[at]!, pairs[at + 1]!)
}
