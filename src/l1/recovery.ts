import type { CounterTable } from '../core/counters.ts'
import {
  CHILDREN,
  CHUNK_WORDS,
  DOOMED,
  FIRST_SHARD,
  GENERATION,
  GENERATION_MASK,
  HOLDS,
  LIVE,
  META,
  NO_CHUNK,
  PARENT,
  READY_ONE,
  SPACE_SHIFT,
  TOUCH_MS,
  USE_KNOWN,
} from './chunk-table.ts'
import type { CopyLog } from './copy-log.ts'
import type { L1TenantField } from './l1-recorder.ts'
import { EXPIRED_READ, EXPIRED_WRITE, type Leases } from './leases.ts'
import type { ReadLeases } from './read-leases.ts'
import { HELD, KEPT, type Survey } from './recovery-survey.ts'
import type { Reservations } from './reservations.ts'
import type { Residency } from './residency.ts'
import {
  CHUNK,
  NEXT_SHARD,
  NO_SHARD,
  QUARANTINED,
  RANK_STATE,
  READABLE,
  SHARD_FREE,
  SHARD_WORDS,
  SLOT,
} from './shard-table.ts'

const DIGIT = 0x1_0000

/** What was taken over from an earlier engine. */
export interface Recovered {
  readonly chunks: number
  /** Readable shards, and their bytes. */
  readonly shards: number
  readonly bytes: number
  /** Readable shards that had lost their parent. */
  readonly droppedShards: number
  /** Leases whose holder may still be writing or copying. */
  readonly openLeases: number
}

export interface RecoveryParts {
  readonly residency: Residency
  readonly leases: Leases
  readonly copies: CopyLog
  readonly reservations: Reservations
  readonly readers: ReadLeases
  readonly tenants: CounterTable<L1TenantField>
}

/**
 * Takes over what a survey found in the tables of an earlier engine. The tables are changed in place, in an order that a
 * kill at any store leaves them in a state of which a new survey says the same:
 *
 *   what goes is cleared first; then what stays gets new links, counts and holds, all of which are derived
 *
 * Recency is rebuilt from the last touches: a parent counts as touched with its latest child, so that the order is leaf
 * first again. Ghosts are forgotten, and what policies know beyond recency.
 */
export function recover(parts: RecoveryParts, survey: Survey): Recovered {
  const { residency, leases } = parts
  clearShards(residency, survey)
  clearChunks(residency, survey)
  placeShards(residency, survey)
  parts.copies.restore(survey.copies)
  leases.restore(survey.leases, (kind, reference) => keepsEntry(survey, kind, reference))
  residency.shards.restore()
  residency.table.restore()
  countChildren(residency, survey)
  for (const id of leastRecentFirst(residency, survey)) {
    residency.policy.admit(id)
    residency.policy.free(id)
  }
  const counted = countShards(parts, survey)
  let openLeases = 0
  for (let row = 0; row < leases.endRow; row += 1) {
    if (leases.kind[row] === EXPIRED_WRITE) parts.reservations.restore(row)
    if (leases.kind[row] === EXPIRED_READ) parts.readers.restore(row, survey.readers[row]!)
    if (leases.kind[row] !== 0) openLeases += 1
  }
  return { chunks: survey.order.length, ...counted, droppedShards: survey.droppedShards, openLeases }
}

function keepsEntry(survey: Survey, kind: number, reference: number): boolean {
  return kind === EXPIRED_READ || survey.shards[reference] === QUARANTINED
}

function clearShards({ shards }: Residency, survey: Survey): void {
  for (let shard = 1; shard < survey.shards.length; shard += 1) {
    const record = shard * SHARD_WORDS
    const state = survey.shards[shard]!
    if (shards.stateOf(shard) === SHARD_FREE) continue
    if (state === SHARD_FREE) shards.words[record + RANK_STATE] = 0
    if (state !== QUARANTINED) continue
    shards.setState(shard, QUARANTINED)
    shards.words[record + CHUNK] = NO_CHUNK
  }
}

function clearChunks({ table }: Residency, survey: Survey): void {
  const words = table.words
  for (let id = table.firstId; id < survey.chunks.length; id += 1) {
    const record = id * CHUNK_WORDS
    const meta = words[record + META]!
    if (meta === 0) continue
    const verdict = survey.chunks[id]!
    const space = meta & (-1 << SPACE_SHIFT)
    if (verdict === KEPT) words[record + META] = space | (meta & USE_KNOWN) | LIVE
    else words[record + META] = verdict === HELD ? space | DOOMED : 0
    if (verdict !== KEPT) words[record + PARENT] = NO_CHUNK
    words[record + FIRST_SHARD] = NO_SHARD
    words[record + HOLDS] = 0
    words[record + CHILDREN] = 0
    words[record + GENERATION] = (words[record + GENERATION]! + 1) & GENERATION_MASK
  }
}

/** The slots in use, in the arena, and the shards in the lists of their chunks. */
function placeShards({ arena, shards, table }: Residency, survey: Survey): void {
  const words = shards.words
  const bySlot = new BigUint64Array(survey.shards.length)
  let count = 0
  for (let shard = 1; shard < survey.shards.length; shard += 1) {
    const record = shard * SHARD_WORDS
    const state = survey.shards[shard]!
    if (state === SHARD_FREE) continue
    bySlot[count++] = (BigInt(words[record + SLOT]!) << 32n) | BigInt(shard)
    if (state !== READABLE) continue
    const chunk = words[record + CHUNK]! * CHUNK_WORDS
    words[record + NEXT_SHARD] = table.words[chunk + FIRST_SHARD]!
    table.words[chunk + FIRST_SHARD] = shard
  }
  const sorted = bySlot.subarray(0, count).sort()
  const slots = Uint32Array.from(sorted, (pair) => Number(pair >> 32n))
  const owners = Uint32Array.from(sorted, (pair) => Number(pair & 0xffff_ffffn))
  arena.restore(slots, owners)
}

function countChildren({ table }: Residency, { order }: Survey): void {
  const words = table.words
  for (const id of order) {
    const parent = words[id * CHUNK_WORDS + PARENT]!
    if (parent === NO_CHUNK) continue
    words[parent * CHUNK_WORDS + CHILDREN] = words[parent * CHUNK_WORDS + CHILDREN]! + 1
  }
}

/** Kept chunks by last touch, children before parents. Stamps begin anew after 49 days: only ages can be compared. */
function leastRecentFirst({ table, recorder }: Residency, { order }: Survey): Uint32Array {
  const words = table.words
  const touched = new Uint32Array(table.endId) // 2^32 - 1 less the age
  const childrenFirst = order.slice().reverse()
  for (const id of childrenFirst) {
    const record = id * CHUNK_WORDS
    touched[id] = Math.max(touched[id]!, ~(recorder.stamp - words[record + TOUCH_MS]!) >>> 0)
    const parent = words[record + PARENT]!
    if (parent !== NO_CHUNK) touched[parent] = Math.max(touched[parent]!, touched[id]!)
  }
  const byLow = sortedBy(childrenFirst, (id) => touched[id]! % DIGIT)
  return sortedBy(byLow, (id) => Math.floor(touched[id]! / DIGIT))
}

/** A stable sort by a digit of 16 bits. */
function sortedBy(ids: Uint32Array, digitOf: (id: number) => number): Uint32Array {
  const starts = new Uint32Array(DIGIT + 1)
  for (const id of ids) starts[digitOf(id) + 1]! += 1
  for (let digit = 0; digit < DIGIT; digit += 1) starts[digit + 1]! += starts[digit]!
  const sorted = new Uint32Array(ids.length)
  for (const id of ids) {
    const digit = digitOf(id)
    sorted[starts[digit]!] = id
    starts[digit]! += 1
  }
  return sorted
}

function countShards({ residency, tenants }: RecoveryParts, survey: Survey): { shards: number; bytes: number } {
  const { table, shards, recorder } = residency
  const column = tenants.column('recoveredShards')
  let readable = 0
  let bytes = 0
  for (let shard = 1; shard < shards.endId; shard += 1) {
    if (survey.shards[shard] !== READABLE) continue
    const id = shards.words[shard * SHARD_WORDS + CHUNK]!
    const spec = residency.specOf(id)
    const { tenant, shardBytes } = spec
    recorder.addUsage(spec, shardBytes)
    if (survey.chunks[id] !== KEPT) continue
    table.words[id * CHUNK_WORDS + META] = table.words[id * CHUNK_WORDS + META]! + READY_ONE
    recorder.addTenant(tenant, column, 1)
    readable += 1
    bytes += shardBytes
  }
  return { shards: readable, bytes }
}
