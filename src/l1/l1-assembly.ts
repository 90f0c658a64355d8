import { CopyLog } from './copy-log.ts'
import { EvictionOrder } from './eviction-order.ts'
import { KeySpaces, SPACES_MAX } from './key-spaces.ts'
import type { L1Parts } from './l1-parts.ts'
import { L1Recorder } from './l1-recorder.ts'
import { heapTables } from './l1-tables.ts'
import { Leases } from './leases.ts'
import { ModelParts, partShape } from './model-parts.ts'
import type { L1Options } from './options.ts'
import { ReadLeases } from './read-leases.ts'
import { Removal } from './removal.ts'
import { Reservations } from './reservations.ts'
import { Residency } from './residency.ts'
import { ShardQueries } from './shard-queries.ts'
import { ShardSums } from './shard-sums.ts'

/** Buckets of an index that nobody aims at. */
const HASH_KEY = [0x85eb_ca6b, 0xc2b2_ae35] as const

/** The parts of an L1, made for each other. */
export type L1Assembly = ReturnType<typeof assembleL1>

export function assembleL1(options: L1Options, parts: L1Parts) {
  const { tenants, totals } = parts
  const tables = parts.tables ?? heapTables(options)
  const spaces = new KeySpaces(SPACES_MAX, new ModelParts(partShape(options)))
  const recorder = new L1Recorder(parts, spaces.salts, options.capacityBytes, options.lifecycleSampleEvery)
  const leases = new Leases(options.leaseCapacity, options.leaseEntryCapacity, tables.leases)
  const residency = new Residency(options, { hashKey: HASH_KEY, ...parts, recorder, spaces, tables, leases })
  const scratch = new Uint32Array(options.leaseEntryCapacity)
  const quarantined = totals.column('quarantinedBytes')
  const late = totals.column('quarantinedReadBytes')
  const pinBytesMax = options.pinRatioMax * options.capacityBytes
  return {
    spaces,
    recorder,
    residency,
    leases,
    reservations: new Reservations(residency, leases, scratch, tenants, quarantined, parts.onReadable),
    readers: new ReadLeases(residency, leases, scratch, tenants, pinBytesMax, late),
    copies: new CopyLog(tables.copies, leases),
    sums: new ShardSums(residency),
    queries: new ShardQueries(residency),
    order: new EvictionOrder(residency),
    removal: new Removal(residency),
    tenants,
  }
}
