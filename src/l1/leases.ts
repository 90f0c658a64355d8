import { assert } from '../core/assert.ts'
import { type LeaseId, NO_LEASE } from '../core/ids.ts'
import { heapLeases, type LeaseColumns } from './l1-tables.ts'

/** What a lease allows. */
export const READ = 1
export const INTERNAL = 2
export const PIN = 3
export const WRITE = 4
/** A write lease that expired: its slots are quarantined until it is fenced. */
export const EXPIRED_WRITE = 5
/** A read lease that expired while its slots were copied from: they stay as they are until it is fenced. */
export const EXPIRED_READ = 6

/** Entries name chunks, and stand for all their shards. */
export const ALL_RANKS = 255
/** Returned instead of a row when there is none. */
export const NO_LEASE_ROW = -1

const NONE = 0
const LOST_ID = 0

/** A lease's id is its row + its generation times this. */
export function leaseUnit(capacity: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(2, capacity)))
}

/**
 * The table of leases: each has an owner, an expiry and a list of entries. Everything is preallocated.
 *
 *   LeaseId = row + generation x 2^rowBits, a safe integer; an ended lease's id never comes back
 *   entries = a pool of (reference, next, run): each stands for the references from that one on, as many as `run`
 *             says; a lease's list starts at the entry added last, so that walking it goes tail first
 *
 *     open          renew                 expire (write lease, or being copied from)            fence
 *   ---------> open -----> open   open ----------------------------------------------> expired ---------> row free
 *                                 open -- commit, abort, release, expire (any other) --------------------> row free
 *
 * Expiry is a scan of one array of deadlines, at most once for each deadline that passed: 50 us for 65,536 leases.
 * A heap would make every renewal dearer than that.
 */
export class Leases {
  readonly capacity: number
  /** By row of the table. Read freely; only `kind` and `count` may be written outside (see `open` and `append`). */
  readonly kind: Uint8Array
  readonly rank: Uint8Array
  readonly space: Uint32Array
  readonly owner: Float64Array
  /** Chain index of entry 0. */
  readonly first: Uint32Array
  readonly count: Uint32Array
  readonly expiryMs: Float64Array
  /** Free for the owner of the table: flags of a write lease, bytes of a pin, copies under way of a read lease. */
  readonly tag: Float64Array
  readonly #generation: Uint32Array
  readonly #head: Uint32Array
  readonly #nextFree: Int32Array
  readonly #unit: number
  #freeRow = NO_LEASE_ROW
  #freshRow = 0
  #openCount = 0
  #earliestMs = Number.POSITIVE_INFINITY

  readonly #entryRef: Uint32Array
  readonly #entryNext: Uint32Array
  readonly #entryRun: Uint32Array
  /** References at most, over all leases. */
  readonly entryCapacity: number
  #freeEntry = NONE
  #freshEntry = 1
  #freeEntries: number

  /** @param columns zeroed; those of an earlier engine need `restore` before anything else. */
  constructor(capacity: number, entryCapacity: number, columns: LeaseColumns = heapLeases(capacity, entryCapacity)) {
    assert(capacity >= 1 && capacity <= 2 ** 20, 'lease capacity out of range')
    assert(columns.kind.length === capacity && columns.entryRef.length === entryCapacity + 1, 'columns of another size')
    this.capacity = capacity
    this.kind = columns.kind
    this.rank = columns.rank
    this.space = columns.space
    this.owner = columns.owner
    this.first = columns.first
    this.count = columns.count
    this.expiryMs = columns.expiryMs
    this.tag = columns.tag
    this.#generation = columns.generation
    this.#head = columns.head
    this.#nextFree = new Int32Array(capacity)
    this.#unit = leaseUnit(capacity)
    this.entryCapacity = entryCapacity
    this.#entryRef = columns.entryRef
    this.#entryNext = columns.entryNext
    this.#entryRun = columns.entryRun
    this.#freeEntries = entryCapacity
  }

  /**
   * Takes over leases of an earlier engine; all others end. Their ids stay, and no ended id comes back.
   *
   * @param kinds by row: what the lease becomes, 0 = ended.
   * @param keeps whether a reference that stands alone still counts; one that does not becomes 0. Runs must be kept.
   */
  restore(kinds: Uint8Array, keeps: (kind: number, reference: number) => boolean): void {
    this.#freshRow = this.capacity
    while (this.#freshRow > 0 && this.#generation[this.#freshRow - 1] === 0) this.#freshRow -= 1
    this.#openCount = 0
    this.#freeRow = NO_LEASE_ROW
    const used = new Uint8Array(this.entryCapacity + 1)
    this.#freshEntry = 1
    this.#freeEntries = this.entryCapacity
    for (let row = this.#freshRow - 1; row >= 0; row -= 1) {
      this.kind[row] = kinds[row]!
      this.expiryMs[row] = Number.POSITIVE_INFINITY
      if (kinds[row] === NONE) {
        this.count[row] = 0
        this.#nextFree[row] = this.#freeRow
        this.#freeRow = row
        continue
      }
      this.#openCount += 1
      this.#freeEntries -= this.count[row]!
      for (let entry = this.#head[row]!, left = this.count[row]!; left > 0; ) {
        used[entry] = 1
        this.#freshEntry = Math.max(this.#freshEntry, entry + 1)
        if (!keeps(kinds[row]!, this.#entryRef[entry]!)) this.#entryRef[entry] = 0
        left -= this.#entryRun[entry]!
        if (left === 0) this.#entryNext[entry] = NONE
        entry = this.#entryNext[entry]!
      }
    }
    this.#freeEntry = NONE
    for (let entry = this.#freshEntry - 1; entry > 0; entry -= 1) {
      if (used[entry] === 1) continue
      this.#entryNext[entry] = this.#freeEntry
      this.#freeEntry = entry
    }
  }

  /** Leases that are open or await their fence. */
  get openCount(): number {
    return this.#openCount
  }

  /** References that may still be added. */
  get freeEntries(): number {
    return this.#freeEntries
  }

  get hasFreeRow(): boolean {
    return this.#openCount < this.capacity
  }

  /** Rows are 0..endRow-1, so far; `kind` 0 = not in use. */
  get endRow(): number {
    return this.#freshRow
  }

  get bytes(): number {
    return this.capacity * (2 + 5 * 4 + 3 * 8 + 4) + (this.entryCapacity + 1) * 12
  }

  /** Opens a lease without entries. @returns its row, or NO_LEASE_ROW when the table is full. */
  open(kind: number, space: number, rank: number, first: number, owner: number, expiryMs: number): number {
    let row = this.#freeRow
    if (row !== NO_LEASE_ROW) this.#freeRow = this.#nextFree[row]!
    else if (this.#freshRow < this.capacity) row = this.#freshRow++
    else return NO_LEASE_ROW
    this.#openCount += 1
    const generation = (this.#generation[row]! + 1) >>> 0
    this.#generation[row] = generation === LOST_ID ? 1 : generation
    this.space[row] = space
    this.rank[row] = rank
    this.first[row] = first
    this.owner[row] = owner
    this.count[row] = 0
    this.tag[row] = 0
    this.#head[row] = NONE
    this.setExpiry(row, expiryMs)
    this.kind[row] = kind // last: the lease counts from here on
    return row
  }

  setExpiry(row: number, expiryMs: number): void {
    this.expiryMs[row] = expiryMs
    if (expiryMs < this.#earliestMs) this.#earliestMs = expiryMs
  }

  idOf(row: number): LeaseId {
    return (row + this.#generation[row]! * this.#unit) as LeaseId
  }

  /** The row of a lease that has not ended, or NO_LEASE_ROW. */
  rowOf(lease: LeaseId): number {
    if (lease === NO_LEASE) return NO_LEASE_ROW
    const row = lease % this.#unit
    if (row >= this.#freshRow || this.kind[row] === NONE) return NO_LEASE_ROW
    return (lease - row) / this.#unit === this.#generation[row] ? row : NO_LEASE_ROW
  }

  /** Adds a reference. The caller has seen that `freeEntries` is not 0. Reference 0 holds nothing. */
  append(row: number, reference: number): void {
    this.appendRun(row, reference, 1)
  }

  /** Adds the references first..first + length - 1, as one entry. The caller has seen that `freeEntries` has as many. */
  appendRun(row: number, first: number, length: number): void {
    let entry = this.#freeEntry
    if (entry !== NONE) this.#freeEntry = this.#entryNext[entry]!
    else entry = this.#freshEntry++
    this.#freeEntries -= length
    this.#entryRef[entry] = first
    this.#entryRun[entry] = length
    this.#entryNext[entry] = this.#head[row]!
    this.#head[row] = entry
    this.count[row] = this.count[row]! + length
  }

  /** Copies the references into `out`, in the order they were added. @returns their number. */
  entries(row: number, out: Uint32Array): number {
    const count = this.count[row]!
    let entry = this.#head[row]!
    for (let end = count; end > 0; ) {
      const start = end - this.#entryRun[entry]!
      const first = this.#entryRef[entry]! - start
      for (let at = start; at < end; at += 1) out[at] = first + at
      end = start
      entry = this.#entryNext[entry]!
    }
    return count
  }

  /** Ends a lease: its id is void from here on. */
  close(row: number): void {
    const head = this.#head[row]!
    if (head !== NONE) {
      let last = head
      while (this.#entryNext[last] !== NONE) last = this.#entryNext[last]!
      this.#entryNext[last] = this.#freeEntry
      this.#freeEntry = head
      this.#freeEntries += this.count[row]!
    }
    this.kind[row] = NONE
    this.count[row] = 0
    this.expiryMs[row] = Number.POSITIVE_INFINITY
    this.#nextFree[row] = this.#freeRow
    this.#freeRow = row
    this.#openCount -= 1
  }

  /** Collects the rows whose deadline has come. @param out filled from 0, at most its length. @returns how many. */
  due(nowMs: number, out: Uint32Array): number {
    if (nowMs < this.#earliestMs) return 0
    let found = 0
    let earliest = Number.POSITIVE_INFINITY
    for (let row = 0; row < this.#freshRow; row += 1) {
      const expiry = this.expiryMs[row]!
      if (expiry <= nowMs && found < out.length) out[found++] = row
      else if (expiry < earliest) earliest = expiry
    }
    this.#earliestMs = earliest
    return found
  }

  /** Checks the pool of entries. For tests. */
  verify(): void {
    let used = 0
    let open = 0
    for (let row = 0; row < this.#freshRow; row += 1) {
      if (this.kind[row] === NONE) continue
      open += 1
      let walked = 0
      for (let entry = this.#head[row]!; entry !== NONE; entry = this.#entryNext[entry]!) {
        walked += this.#entryRun[entry]!
      }
      assert(walked === this.count[row], 'a lease lost entries')
      used += walked
    }
    assert(open === this.#openCount, 'open leases are miscounted')
    assert(used + this.#freeEntries === this.entryCapacity, 'lease entries leaked')
  }
}
