import { assert } from '../core/assert.ts'
import type { CounterTable } from '../core/counters.ts'
import type { SpaceId } from '../core/ids.ts'
import {
  ANCHORED,
  CHILDREN,
  CHUNK_WORDS,
  DOOMED,
  FIRST_SHARD,
  FREE,
  GENERATION,
  GHOST,
  HOLDS,
  LIVE,
  MARK_INSIDE,
  MARK_OUTSIDE,
  META,
  NO_CHUNK,
  PARENT,
  READY_SHIFT,
  SPACE_SHIFT,
  STATE_MASK,
} from './chunk-table.ts'
import type { L1Field, L1TenantField } from './l1-recorder.ts'
import { ALL_RANKS, EXPIRED_READ, EXPIRED_WRITE, INTERNAL, type Leases, WRITE } from './leases.ts'
import type { Residency } from './residency.ts'
import { isRunEnd } from './run-holds.ts'
import {
  CHUNK,
  NEXT_SHARD,
  NO_SHARD,
  QUARANTINED,
  RANK_MASK,
  RANK_STATE,
  READABLE,
  RESERVED,
  SHARD_FREE,
  SHARD_WORDS,
  SLOT,
} from './shard-table.ts'

/** Readable shards and bytes, by tenant, recounted from the records. */
export interface Recount {
  readonly readableShards: Map<number, number>
  readonly usageBytes: Map<number, number>
  readonly quarantinedBytes: number
  readonly quarantinedReadBytes: number
}

/** Checks the whole of L1, and recounts it. For tests: it takes time in proportion to everything. */
export function verifyL1(residency: Residency, leases: Leases): Recount {
  residency.table.verify()
  residency.policy.verify()
  checkSalts(residency)
  residency.arena.verify()
  leases.verify()
  const counted = countLeases(residency, leases)
  const shardsSeen = checkChunks(residency, counted)
  return checkShards(residency, leases, shardsSeen, counted)
}

/** Checks the cells of L1 against a recount. */
export function verifyCells(
  recount: Recount,
  tenants: CounterTable<L1TenantField>,
  totals: CounterTable<L1Field>,
  usageBytes: number,
): void {
  for (let row = 0; row < tenants.rows; row += 1) {
    const came = tenants.get(row, 'writeShards') + tenants.get(row, 'recoveredShards')
    const removed =
      tenants.get(row, 'removedClear') +
      tenants.get(row, 'removedDelete') +
      tenants.get(row, 'removedQuota') +
      tenants.get(row, 'removedCorrupt')
    const left = tenants.get(row, 'evictedShards') + removed
    assert(came === left + (recount.readableShards.get(row) ?? 0), 'shards that came are not those that stay or left')
    assert(tenants.get(row, 'usageBytes') === (recount.usageBytes.get(row) ?? 0), 'usage of a tenant is wrong')
  }
  assert(totals.get(0, 'usageBytes') === usageBytes, 'the usage cell is wrong')
  assert(totals.get(0, 'quarantinedBytes') === recount.quarantinedBytes, 'quarantine is miscounted')
  assert(totals.get(0, 'quarantinedReadBytes') === recount.quarantinedReadBytes, 'late readers are miscounted')
}

/** Each free chunk is in the list of its salt, and the bytes of a salt are those of its shards. */
function checkSalts({ table, shards, spaces, policy, arena }: Residency): void {
  for (let id = table.firstId; id < table.endId; id += 1) {
    const record = id * CHUNK_WORDS
    const isFree = (table.words[record + META]! & STATE_MASK) === LIVE && table.words[record + HOLDS] === 0
    assert(!policy.isOn || policy.isListed(id) === isFree, 'a salt lists other chunks than the free ones')
  }
  let listedBytes = 0
  for (let row = 0; row < spaces.salts.count; row += 1) listedBytes += spaces.salts.usageBytes(row)
  assert(listedBytes === arena.usedBytes, 'the bytes of all salts are not those in use')
  const bytes = new Float64Array(spaces.salts.count)
  for (let shard = 1; shard < shards.endId; shard += 1) {
    const state = shards.stateOf(shard)
    const id = shards.words[shard * SHARD_WORDS + CHUNK]!
    if (state === SHARD_FREE || id === NO_CHUNK) continue
    const space = (table.words[id * CHUNK_WORDS + META]! >>> SPACE_SHIFT) as SpaceId
    bytes[spaces.saltRows[space]!]! += spaces.spec(space).shardBytes
  }
  for (const [row, counted] of bytes.entries()) {
    assert(spaces.salts.usageBytes(row) >= counted, 'a salt holds more than is counted') // more: quarantined
  }
}

interface LeaseCounts {
  /** By chunk: entries of write leases, and ends of the runs of read leases and pins. */
  readonly holds: Uint32Array
  /** By chunk: entries of internal leases. */
  readonly internal: Uint32Array
  /** By shard: write leases that name it; must be 0 or 1. */
  readonly writers: Uint8Array
}

function countLeases(residency: Residency, leases: Leases): LeaseCounts {
  const holds = new Uint32Array(residency.table.endId)
  const internal = new Uint32Array(residency.table.endId)
  const writers = new Uint8Array(residency.shards.endId)
  const entries = new Uint32Array(leases.entryCapacity)
  for (let row = 0; row < leases.endRow; row += 1) {
    const kind = leases.kind[row]!
    const count = kind === 0 ? 0 : leases.entries(row, entries)
    for (let at = 0; at < count; at += 1) {
      const reference = entries[at]!
      const isShard = leases.rank[row] !== ALL_RANKS
      if (isShard && reference === NO_SHARD) continue
      const id = isShard ? residency.shards.words[reference * SHARD_WORDS + CHUNK]! : reference
      if (kind === WRITE || kind === EXPIRED_WRITE) writers[reference]! += 1
      if (kind === EXPIRED_WRITE) continue
      if (kind === INTERNAL) internal[id]! += 1
      else if (kind === WRITE || isRunEnd(residency.table.words, entries, at, count)) holds[id]! += 1
    }
  }
  return { holds, internal, writers }
}

function checkChunks(residency: Residency, counted: LeaseCounts): number {
  const { table, shards } = residency
  const words = table.words
  const children = new Uint32Array(table.endId)
  const holds = counted.holds.slice()
  for (let id = table.firstId; id < table.endId; id += 1) {
    const record = id * CHUNK_WORDS
    const state = residency.stateOf(id)
    if ((words[record + META]! & ANCHORED) !== 0) holds[id]! += 1
    if (state !== LIVE && state !== DOOMED) continue
    const parent = words[record + PARENT]!
    if (parent === NO_CHUNK) continue
    children[parent]! += 1
    if (words[record + HOLDS]! > 0) holds[parent]! += 1
  }
  let shardsSeen = 0
  for (let id = table.firstId; id < table.endId; id += 1) {
    const record = id * CHUNK_WORDS
    const state = residency.stateOf(id)
    assert((words[record + META]! & (MARK_INSIDE | MARK_OUTSIDE)) === 0, 'a mark was left behind')
    if (state === FREE || state === GHOST) {
      assert(children[id] === 0 && holds[id] === 0, 'a chunk that is gone has children or holds')
      continue
    }
    assert(words[record + CHILDREN] === children[id], 'children are miscounted')
    assert(words[record + HOLDS] === holds[id], 'holds are miscounted')
    assert(words[record + GENERATION]! >>> 24 === counted.internal[id], 'internal leases are miscounted')
    if (state === DOOMED) assert(holds[id]! > 0, 'a doomed chunk that nobody holds')
    else checkParent(residency, id)
    let ready = 0
    const ranks = new Set<number>()
    for (let shard = words[record + FIRST_SHARD]!; shard !== NO_SHARD; ) {
      const at = shard * SHARD_WORDS
      assert(shards.words[at + CHUNK] === id, 'a shard is in the list of another chunk')
      ranks.add(shards.words[at + RANK_STATE]! & RANK_MASK)
      ready += shards.stateOf(shard) === READABLE ? 1 : 0
      shardsSeen += 1
      shard = shards.words[at + NEXT_SHARD]!
      assert(ranks.size <= residency.specOf(id).ranks, 'a chunk has more shards than ranks')
    }
    const expected = state === DOOMED ? 0 : ready
    assert(((words[record + META]! >>> READY_SHIFT) & 0xff) === expected, 'readable shards are miscounted')
    assert(state === DOOMED || holds[id]! > 0 || ready > 0, 'a free chunk without a readable shard')
  }
  return shardsSeen
}

/** The parent of a live chunk is live, of the same space, and readable for every rank for which the chunk is. */
function checkParent(residency: Residency, id: number): void {
  const { table, shards } = residency
  const parent = table.words[id * CHUNK_WORDS + PARENT]!
  if (parent === NO_CHUNK) return
  assert(residency.stateOf(parent) === LIVE, 'a live chunk without its parent')
  assert(residency.spaceOf(parent) === residency.spaceOf(id), 'a parent of another key space')
  for (let shard = table.words[id * CHUNK_WORDS + FIRST_SHARD]!; shard !== NO_SHARD; ) {
    const at = shard * SHARD_WORDS
    if (shards.stateOf(shard) === READABLE) {
      const above = shards.ofRank(
        table.words[parent * CHUNK_WORDS + FIRST_SHARD]!,
        shards.words[at + RANK_STATE]! & RANK_MASK,
      )
      assert(above !== NO_SHARD && shards.stateOf(above) === READABLE, 'a readable shard without its parent')
    }
    shard = shards.words[at + NEXT_SHARD]!
  }
}

function checkShards(residency: Residency, leases: Leases, inChunks: number, counted: LeaseCounts): Recount {
  const { shards, arena, spaces } = residency
  const readableShards = new Map<number, number>()
  const usageBytes = new Map<number, number>()
  let free = shards.capacity + 1 - shards.endId
  let quarantined = 0
  let quarantinedBytes = 0
  let total = 0
  const spaceOfWriter = spacesOfQuarantine(residency, leases)
  for (let shard = 1; shard < shards.endId; shard += 1) {
    const state = shards.stateOf(shard)
    if (state === SHARD_FREE) {
      free += 1
      continue
    }
    const slot = shards.words[shard * SHARD_WORDS + SLOT]!
    const id = shards.words[shard * SHARD_WORDS + CHUNK]!
    assert(arena.owner(slot) === shard, 'the arena gives a slot to another shard')
    assert(counted.writers[shard] === (state === READABLE ? 0 : 1), 'a shard has no writer, or too many')
    if (state === QUARANTINED) {
      quarantined += 1
      quarantinedBytes += arena.lengthOf(slot)
      assert(id === NO_CHUNK, 'a quarantined shard belongs to a chunk')
    } else if (state === RESERVED) {
      assert(counted.holds[id]! > 0, 'a shard is written under no lease')
    }
    const spec = id === NO_CHUNK ? residency.spaces.spec(spaceOfWriter.get(shard)! as never) : residency.specOf(id)
    assert(arena.lengthOf(slot) === spec.shardBytes, 'a slot of the wrong length')
    assert(Math.floor(arena.offsetOf(slot) / spaces.parts.partBytes) === spec.part, 'a shard in the part of another')
    usageBytes.set(spec.tenant, (usageBytes.get(spec.tenant) ?? 0) + spec.shardBytes)
    total += spec.shardBytes
    if (state === READABLE && residency.stateOf(id) === LIVE) {
      readableShards.set(spec.tenant, (readableShards.get(spec.tenant) ?? 0) + 1)
    }
  }
  assert(free === shards.freeCount, 'free shards are miscounted')
  assert(shards.capacity - free === inChunks + quarantined, 'a shard belongs to nobody')
  assert(total === arena.usedBytes, 'the arena counts other bytes')
  assert(total === residency.recorder.usageBytes, 'usage is miscounted')
  return { readableShards, usageBytes, quarantinedBytes, quarantinedReadBytes: bytesOfLateReaders(residency, leases) }
}

/** Each chunk once, however many leases keep it. */
function bytesOfLateReaders(residency: Residency, leases: Leases): number {
  const chunks = new Set<number>()
  const entries = new Uint32Array(leases.entryCapacity)
  for (let row = 0; row < leases.endRow; row += 1) {
    if (leases.kind[row] !== EXPIRED_READ) continue
    assert(leases.tag[row]! > 0, 'an expired read lease that nobody copies from')
    const count = leases.entries(row, entries)
    for (let at = 0; at < count; at += 1) chunks.add(entries[at]!)
  }
  let bytes = 0
  for (const id of chunks) bytes += residency.specOf(id).ranks * residency.specOf(id).shardBytes
  return bytes
}

function spacesOfQuarantine(residency: Residency, leases: Leases): Map<number, number> {
  const spaces = new Map<number, number>()
  const entries = new Uint32Array(leases.entryCapacity)
  for (let row = 0; row < leases.endRow; row += 1) {
    if (leases.kind[row] !== EXPIRED_WRITE) continue
    const count = leases.entries(row, entries)
    for (let at = 0; at < count; at += 1) spaces.set(entries[at]!, leases.space[row]!)
  }
  assert(residency.spaces.count > 0 || spaces.size === 0, 'quarantine without a key space')
  return spaces
}
