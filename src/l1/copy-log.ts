import { assert } from '../core/assert.ts'
import type { LeaseId, SpaceId } from '../core/ids.ts'
import { type Leases, NO_LEASE_ROW } from './leases.ts'

/** What another process does with slots it was told of. */
export const STORE_COPY = 1
export const RETRIEVE_COPY = 2
/** There is no row left. */
export const NO_ROW = -1
/** Copies under way at most, over all processes. */
export const COPIES_MAX = 16_384

const NONE = 0
const FNV_PRIME = 0x0100_0193

/** The columns of the log. */
export interface CopyColumns {
  readonly kind: Uint8Array
  readonly owner: Float64Array
  readonly name: Float64Array
  readonly lease: Float64Array
}

/** A copy of an earlier engine's that may still be under way. */
export interface OpenCopy {
  readonly row: number
  readonly kind: number
  readonly owner: number
  readonly name: number
  readonly lease: LeaseId
  /** Of the lease; `count` is that of its chunks, or of its shards when it is a store's. */
  readonly space: SpaceId
  readonly rank: number
  readonly count: number
}

/**
 * Which slots other processes may be writing to or reading from: a row for each lease of each copy, from before they are
 * told of the slots until they say that they are done. It lies with the tables, so a later engine knows them too.
 *
 *   row   kind (0 = not in use) | owner of the copy | its name | lease
 *
 * The kind is written last when a copy begins, and first when it ends.
 */
export class CopyLog {
  readonly #columns: CopyColumns
  readonly #leases: Leases
  readonly #free: Int32Array
  #freeCount = 0
  #fresh = 0

  /** @param columns zeroed; those of an earlier engine need `restore` before anything else. */
  constructor(columns: CopyColumns, leases: Leases) {
    this.#columns = columns
    this.#leases = leases
    this.#free = new Int32Array(columns.kind.length)
  }

  get freeRows(): number {
    return this.#columns.kind.length - this.#fresh + this.#freeCount
  }

  /** Notes a copy. The caller has seen that `freeRows` is not 0. @returns its row. */
  begin(kind: number, owner: number, name: number, lease: LeaseId): number {
    assert(this.freeRows > 0, 'more copies than rows')
    const columns = this.#columns
    const row = this.#freeCount > 0 ? this.#free[--this.#freeCount]! : this.#fresh++
    columns.owner[row] = owner
    columns.name[row] = name
    columns.lease[row] = lease
    columns.kind[row] = kind
    return row
  }

  end(row: number): void {
    assert(this.#columns.kind[row] !== NONE, 'a copy ends twice')
    this.#columns.kind[row] = NONE
    this.#free[this.#freeCount++] = row
  }

  /** Takes over those rows of an earlier engine's that are marked; all others end. */
  restore(keeps: Uint8Array): void {
    const { kind } = this.#columns
    this.#fresh = kind.length
    while (this.#fresh > 0 && kind[this.#fresh - 1] === NONE) this.#fresh -= 1
    this.#freeCount = 0
    for (let row = this.#fresh - 1; row >= 0; row -= 1) {
      if (keeps[row] === 0) kind[row] = NONE
      if (kind[row] === NONE) this.#free[this.#freeCount++] = row
    }
  }

  /** The copies of one owner. */
  listOf(owner: number): OpenCopy[] {
    const columns = this.#columns
    const { space, rank, count } = this.#leases
    const found: OpenCopy[] = []
    for (let row = 0; row < this.#fresh; row += 1) {
      if (columns.kind[row] === NONE || columns.owner[row] !== owner) continue
      const lease = columns.lease[row] as LeaseId
      const leaseRow = this.#leases.rowOf(lease)
      assert(leaseRow !== NO_LEASE_ROW, 'a copy under a lease that has ended')
      const facts = { space: space[leaseRow] as SpaceId, rank: rank[leaseRow]!, count: count[leaseRow]! }
      found.push({ row, kind: columns.kind[row]!, owner, name: columns.name[row]!, lease, ...facts })
    }
    return found
  }
}

/** A number of 53 bits for a text, never 0. Two texts of one worker that share it would only end each other's copies. */
export function copyName(text: string): number {
  let low = 0x811c_9dc5
  let high = 0x9e37_79b9
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    low = Math.imul(low ^ code, FNV_PRIME)
    high = Math.imul(high ^ code, 0x85eb_ca6b) ^ (low >>> 15)
  }
  low ^= high >>> 13
  return (low >>> 0) + (high >>> 11) * 2 ** 32 + 1
}
