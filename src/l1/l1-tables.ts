import { assert } from '../core/assert.ts'
import type { ArenaJournal } from './arena.ts'
import { SPAN_ROW } from './arena-spans.ts'
import { chunkTableWords } from './chunk-table.ts'
import { COPIES_MAX, type CopyColumns } from './copy-log.ts'
import { partShape } from './model-parts.ts'
import type { L1Options } from './options.ts'
import { shardTableWords } from './shard-table.ts'
import { arenaShape, CLASS_LIMIT, CLASS_ROW } from './size-classes.ts'

/** Spans at most of an arena whose spans are written down. */
const SPANS_MAX = 2 ** 20
const ALIGNMENT = 8

/** The columns of the table of leases; see leases.ts. */
export interface LeaseColumns {
  readonly kind: Uint8Array
  readonly rank: Uint8Array
  readonly space: Uint32Array
  readonly owner: Float64Array
  readonly first: Uint32Array
  readonly count: Uint32Array
  readonly expiryMs: Float64Array
  readonly tag: Float64Array
  readonly generation: Uint32Array
  readonly head: Uint32Array
  readonly entryRef: Uint32Array
  readonly entryNext: Uint32Array
  readonly entryRun: Uint32Array
}

/**
 * The arrays that say what lies where in L1. They are the tables that L1 works on, not a copy of them: laid into shared
 * memory, every store to them has reached the kernel when the next one happens, so a process that is killed leaves
 * behind a prefix of its stores. The order of stores is therefore part of each table's contract (src/README.md).
 */
export interface L1Tables {
  readonly chunks: Uint32Array
  readonly shards: Uint32Array
  readonly leases: LeaseColumns
  readonly copies: CopyColumns
  /** By part of L1. Null when nothing is to outlive the process. */
  readonly arenas: readonly ArenaJournal[] | null
}

/** Makes arrays, zeroed or with what an earlier engine left. */
interface Allocator {
  bytes(count: number): Uint8Array
  words(count: number): Uint32Array
  doubles(count: number): Float64Array
}

const HEAP: Allocator = {
  bytes: (count) => new Uint8Array(count),
  words: (count) => new Uint32Array(count),
  doubles: (count) => new Float64Array(count),
}

/** Tables of this process alone. */
export function heapTables(options: L1Options): L1Tables {
  return { ...residentTables(options, HEAP), arenas: null }
}

/** Bytes of the tables that `mapTables` lays. */
export function mappedTableBytes(options: L1Options): number {
  let bytes = 0
  const measure =
    <Table>(itemBytes: number, empty: Table) =>
    (count: number) => {
      bytes = align(bytes + count * itemBytes)
      return empty
    }
  layTables(options, {
    bytes: measure(1, new Uint8Array(0)),
    words: measure(4, new Uint32Array(0)),
    doubles: measure(8, new Float64Array(0)),
  })
  return bytes
}

/** The tables over `memory`, of `mappedTableBytes(options)`: all zeros, or what an engine with these options left. */
export function mapTables(options: L1Options, memory: Uint8Array): L1Tables {
  assert(memory.byteOffset % ALIGNMENT === 0, 'tables that are not aligned')
  let offset = memory.byteOffset
  const take = (count: number, itemBytes: number): [ArrayBufferLike, number, number] => {
    const start = offset
    offset = align(offset + count * itemBytes)
    assert(offset <= memory.byteOffset + memory.length, 'tables that do not fit')
    return [memory.buffer, start, count]
  }
  return layTables(options, {
    bytes: (count) => new Uint8Array(...take(count, 1)),
    words: (count) => new Uint32Array(...take(count, 4)),
    doubles: (count) => new Float64Array(...take(count, 8)),
  })
}

function layTables(options: L1Options, allocator: Allocator): L1Tables {
  const { count, partBytes } = partShape(options)
  const shape = arenaShape({ capacityBytes: partBytes, extentBytes: options.extentBytes })
  const spans = Math.min(SPANS_MAX, CLASS_LIMIT * shape.extentCount)
  const arenas = Array.from({ length: count }, () => {
    const classes = allocator.doubles(CLASS_LIMIT * CLASS_ROW)
    return { classes, spans: allocator.words(spans * SPAN_ROW) }
  })
  return { arenas, ...residentTables(options, allocator) }
}

function residentTables(options: L1Options, allocator: Allocator): Omit<L1Tables, 'arenas'> {
  const { leaseCapacity, leaseEntryCapacity } = options
  return {
    chunks: allocator.words(chunkTableWords(options.indexCapacityChunks)),
    shards: allocator.words(shardTableWords(options.indexCapacityShards)),
    leases: leaseColumns(leaseCapacity, leaseEntryCapacity, allocator),
    copies: {
      kind: allocator.bytes(COPIES_MAX),
      owner: allocator.doubles(COPIES_MAX),
      name: allocator.doubles(COPIES_MAX),
      lease: allocator.doubles(COPIES_MAX),
    },
  }
}

/** Columns for leases of this process alone. */
export function heapLeases(capacity: number, entryCapacity: number): LeaseColumns {
  return leaseColumns(capacity, entryCapacity, HEAP)
}

function leaseColumns(capacity: number, entryCapacity: number, allocator: Allocator): LeaseColumns {
  return {
    kind: allocator.bytes(capacity),
    rank: allocator.bytes(capacity),
    space: allocator.words(capacity),
    owner: allocator.doubles(capacity),
    first: allocator.words(capacity),
    count: allocator.words(capacity),
    expiryMs: allocator.doubles(capacity),
    tag: allocator.doubles(capacity),
    generation: allocator.words(capacity),
    head: allocator.words(capacity),
    entryRef: allocator.words(entryCapacity + 1),
    entryNext: allocator.words(entryCapacity + 1),
    entryRun: allocator.words(entryCapacity + 1),
  }
}

function align(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT
}
