import { assert } from '../core/assert.ts'
import type { CounterTable } from '../core/counters.ts'
import type { TenantId } from '../core/ids.ts'
import type { L0_FIELDS } from '../events/counters.ts'
import type { BlockLifecycle } from './block-lifecycle.ts'
import { HeldBlocks } from './held-blocks.ts'

// What is known of one block id of somebody else's GPU. A scheduler reports the blocks that a request was given:
// all of them, first to last, when the request starts or starts again; later only those added. It reports neither
// evictions nor what decoding writes into a block. So:
//
//               reported                 reported with the same tokens, in the leading run of its record: reused
//    unknown ------------> held by requests <-----------------------------------------+
//                             |      |                                                |
//                             |      '--the last of them ends: that was an access--> kept for reuse
//                             |                                                       |
//                             '---- reported otherwise: evicted some time ago, now allocated anew ----'
//
// - Content is a hash of the block's own tokens. That it follows the same prefix is told by the record: the server finds
//   blocks by their prefix, so those found are a leading run, and behind the first block that is new all are new.
// - A block reported before its last tokens were known keeps the hash of those that were. A whole block that begins
//   with them is the same one, filled since. One of which no token was known cannot be told from another: evicted.
// - A block that is reported in part is never a reuse: the server shares only whole ones.
// - An eviction shows when the id is given out again, which may be long after. Lifetime and idle time are thus at least
//   as long as the real ones. Ids that are never given out again, and those of a server that went away, are not evicted.

/** Block ids that all tables together may still grow by, and those refused. Shared by them. */
export interface ObservedLedger {
  idsLeft: number
  refusedBlocks: number
}

export interface ObservedBlocksParts {
  readonly lifecycle: BlockLifecycle
  readonly totals: CounterTable<(typeof L0_FIELDS)[number]>
  readonly ledger: ObservedLedger
}

/** The id that servers put where a request has no block. */
const PLACEHOLDER = 0
const FIRST_IDS = 1024

/** The blocks of one GPU of an inference server, as far as its reports tell. Ids index typed arrays, which grow. */
export class ObservedBlocks {
  readonly #lifecycle: BlockLifecycle
  readonly #totals: ObservedBlocksParts['totals']
  readonly #observedColumn: number
  readonly #usedColumn: number
  readonly #ledger: ObservedLedger
  readonly #held = new HeldBlocks()
  #allocatedMs = new Float64Array(0)
  #accessedMs = new Float64Array(0)
  #hashLow = new Int32Array(0)
  #hashHigh = new Int32Array(0)
  #known = new Int32Array(0) // tokens in the hash, plus 1; 0 = never reported
  #tenant = new Int32Array(0)
  #holds = new Int32Array(0) // entries in #held that are of this allocation
  #allocation = new Uint32Array(0) // which of the id this is, so that entries of earlier ones are told apart
  #blocks = 0
  #usedBlocks = 0
  // The hash at hand.
  #low = 0
  #high = 0

  constructor({ lifecycle, totals, ledger }: ObservedBlocksParts) {
    this.#lifecycle = lifecycle
    this.#totals = totals
    this.#observedColumn = totals.column('observedBlocks')
    this.#usedColumn = totals.column('observedUsedBlocks')
    this.#ledger = ledger
  }

  /** Ids that were reported. */
  get blocks(): number {
    return this.#blocks
  }

  /** Those of requests that have not ended. */
  get usedBlocks(): number {
    return this.#usedBlocks
  }

  get requests(): number {
    return this.#held.requests
  }

  /**
   * A request was given these blocks, which hold these tokens in order; the last ones may hold fewer than `blockTokens`,
   * or none that are known. An id past the limit is counted and left out.
   */
  report(
    requestId: string,
    tenant: TenantId,
    ids: Uint32Array,
    tokens: Uint32Array,
    blockTokens: number,
    nowMs: number,
  ): void {
    const holding = this.#held.of(requestId, this.#letGo)
    let isLeading = true
    for (let at = 0; at < ids.length; at += 1) {
      const id = ids[at]!
      if (id === PLACEHOLDER) continue
      if (!this.#makeRoom(id)) {
        this.#ledger.refusedBlocks += 1
        continue
      }
      const from = Math.min(at * blockTokens, tokens.length)
      const to = Math.min(from + blockTokens, tokens.length)
      const isKnown = this.#known[id]! > 0
      isLeading &&= !isKnown || (to - from === blockTokens && this.#agrees(id, tokens, from, to))
      if (isKnown && isLeading) this.#reuse(id, nowMs)
      else this.#allocate(id, tenant, tokens, from, to, nowMs)
      if (this.#held.add(holding, id, this.#allocation[id]!, 4 * this.#known.length)) this.#hold(id)
    }
  }

  /** A request has ended: until now it used its blocks. @returns whether it was known. */
  endRequest(requestId: string, nowMs: number): boolean {
    return this.#held.end(requestId, (id, allocation) => {
      if (this.#letGo(id, allocation)) this.#accessedMs[id] = nowMs
    })
  }

  /** The server is gone, and its blocks with it. The table is empty then. */
  forget(): void {
    this.#add(this.#observedColumn, -this.#blocks)
    this.#add(this.#usedColumn, -this.#usedBlocks)
    this.#ledger.idsLeft += this.#known.length
    this.#blocks = 0
    this.#usedBlocks = 0
    this.#held.clear()
    this.#resize(0)
  }

  /** Whole-structure check for tests. */
  verify(): void {
    const holds = new Int32Array(this.#known.length)
    this.#held.forEach((id, allocation) => {
      if (this.#allocation[id] === allocation) holds[id] = holds[id]! + 1
    })
    let blocks = 0
    let used = 0
    for (let id = 0; id < holds.length; id += 1) {
      assert(holds[id] === this.#holds[id], 'holds of a block miscounted')
      assert(this.#known[id]! > 0 || this.#holds[id] === 0, 'an unknown block is held')
      if (this.#known[id]! > 0) blocks += 1
      if (this.#holds[id]! > 0) used += 1
    }
    assert(blocks === this.#blocks && used === this.#usedBlocks, 'observed blocks miscounted')
    this.#held.verify()
  }

  #reuse(id: number, nowMs: number): void {
    this.#lifecycle.observedReused(this.#tenant[id]!, id, nowMs, this.#accessedMs[id]!)
    this.#accessedMs[id] = nowMs
  }

  #allocate(id: number, tenant: TenantId, tokens: Uint32Array, from: number, to: number, nowMs: number): void {
    if (this.#known[id]! > 0) this.#evict(id, nowMs)
    else {
      this.#blocks += 1
      this.#add(this.#observedColumn, 1)
    }
    this.#clearHash()
    this.#hash(tokens, from, to)
    this.#remember(id, to - from)
    this.#tenant[id] = tenant
    this.#allocatedMs[id] = nowMs
    this.#accessedMs[id] = nowMs
    this.#lifecycle.allocated(tenant, 1)
  }

  #evict(id: number, nowMs: number): void {
    this.#lifecycle.observedEvicted(this.#tenant[id]!, id, nowMs, this.#allocatedMs[id]!, this.#accessedMs[id]!)
    this.#allocation[id] = this.#allocation[id]! + 1
    if (this.#holds[id]! > 0) this.#countUsed(-1) // of a request that was preempted, or whose end was not told
    this.#holds[id] = 0
  }

  #hold(id: number): void {
    if (this.#holds[id] === 0) this.#countUsed(1)
    this.#holds[id] = this.#holds[id]! + 1
  }

  /** An entry of a request ends. @returns whether the block is still what the request was given. */
  readonly #letGo = (id: number, allocation: number): boolean => {
    if (this.#allocation[id] !== allocation) return false
    this.#holds[id] = this.#holds[id]! - 1
    if (this.#holds[id] === 0) this.#countUsed(-1)
    return true
  }

  /** Whether a whole block begins with what is known of `id`; from then on all of it is known. */
  #agrees(id: number, tokens: Uint32Array, from: number, to: number): boolean {
    const known = this.#known[id]! - 1
    if (known === 0 || known > to - from) return false
    this.#clearHash()
    this.#hash(tokens, from, from + known)
    if (this.#low !== this.#hashLow[id] || this.#high !== this.#hashHigh[id]) return false
    this.#hash(tokens, from + known, to)
    this.#remember(id, to - from)
    return true
  }

  #remember(id: number, tokens: number): void {
    this.#hashLow[id] = this.#low
    this.#hashHigh[id] = this.#high
    this.#known[id] = tokens + 1
  }

  #clearHash(): void {
    this.#low = 0x2545f491
    this.#high = 0x1b873593
  }

  /** 64 bits: only a metric hangs on them. */
  #hash(tokens: Uint32Array, from: number, to: number): void {
    let low = this.#low
    let high = this.#high
    for (let at = from; at < to; at += 1) {
      const token = tokens[at]!
      low = Math.imul(low ^ token, 0x85ebca6b)
      low ^= low >>> 13
      high = Math.imul((high ^ (high >>> 15)) + token, 0xc2b2ae35)
    }
    this.#low = low
    this.#high = high
  }

  #countUsed(amount: number): void {
    this.#usedBlocks += amount
    this.#add(this.#usedColumn, amount)
  }

  #add(column: number, amount: number): void {
    const { values } = this.#totals
    values[column] = values[column]! + amount
  }

  /** False when the tables may not grow to this id. */
  #makeRoom(id: number): boolean {
    const { length } = this.#known
    if (id < length) return true
    const { idsLeft } = this.#ledger
    const most = length + idsLeft
    if (id >= most) return false
    let capacity = Math.max(FIRST_IDS, length)
    while (capacity <= id) capacity *= 2
    capacity = Math.min(capacity, most)
    this.#ledger.idsLeft = most - capacity
    this.#resize(capacity)
    return true
  }

  #resize(capacity: number): void {
    this.#allocatedMs = resized(this.#allocatedMs, new Float64Array(capacity))
    this.#accessedMs = resized(this.#accessedMs, new Float64Array(capacity))
    this.#hashLow = resized(this.#hashLow, new Int32Array(capacity))
    this.#hashHigh = resized(this.#hashHigh, new Int32Array(capacity))
    this.#known = resized(this.#known, new Int32Array(capacity))
    this.#tenant = resized(this.#tenant, new Int32Array(capacity))
    this.#holds = resized(this.#holds, new Int32Array(capacity))
    this.#allocation = resized(this.#allocation, new Uint32Array(capacity))
  }
}

function resized<Words extends Float64Array | Int32Array | Uint32Array>(from: Words, to: Words): Words {
  to.set(from.subarray(0, to.length))
  return to
}
