import { L1_ISOLATIONS, L1_POLICIES, type L1Options } from '../l1/options.ts'
import { bytes, derived, duration, type FieldTable, integer, oneOf, ratio } from './fields.ts'

const GIB = 1024 ** 3
const MIB = 1024 ** 2

/** Smallest shard that the default index is sized for, in bytes. */
const SHARD_BYTES_EXPECTED = 16_384
const SECOND = { minimumMs: 1, maximumMs: 60_000 }

export const l1Fields = {
  capacityBytes: bytes(
    '--l1-size',
    derived(
      'that of the L1 to take over, else min(4GiB, a quarter of available memory, 80 % of free /dev/shm)',
      (known) => {
        const { machine } = known
        const keptBytes = machine.keptL1Bytes(known.value<string>('--data-dir'))
        if (keptBytes > 0) return keptBytes
        const room = Math.min(4 * GIB, machine.availableMemoryBytes / 4, machine.freeSharedMemoryBytes * 0.8)
        return Math.max(MIB, Math.floor(room / MIB) * MIB)
      },
    ),
    'Host memory reserved for the L1 arena, in shared memory.',
    MIB,
  ),
  isolation: oneOf(
    '--l1-isolation',
    L1_ISOLATIONS,
    'none',
    'Who shares a segment of shared memory: all models (none), or the workers of one (model).',
  ),
  isolationModels: integer(
    '--l1-isolation-models',
    2,
    { minimum: 2, maximum: 64 },
    'With --l1-isolation model: equal parts that L1 is cut into, and so models at most.',
  ),
  extentBytes: bytes('--l1-extent-size', '0B', 'Bytes of one extent of the arena; 0 = chosen from the capacity.'),
  indexCapacityChunks: integer(
    '--l1-index-chunks',
    derived('twice the chunks of 16KiB that fit, 32768 to 1048576', (known) => indexSize(known.value('--l1-size'))),
    { minimum: 64, maximum: 100_000_000 },
    'Chunks that the L1 index can hold, remembered evicted ones included.',
  ),
  indexCapacityShards: integer(
    '--l1-index-shards',
    derived('as --l1-index-chunks', (known) => known.value<number>('--l1-index-chunks')),
    { minimum: 64, maximum: 100_000_000 },
    'Shards that the L1 index can hold: one for each rank of a chunk.',
  ),
  evictionHighRatio: ratio('--l1-high', 0.998, 'Fill level at which the eviction loop runs, of what shards can use.'),
  evictionLowRatio: ratio('--l1-low', 0.996, 'Fill level down to which the eviction loop trims.'),
  evictionIntervalMs: duration('--l1-eviction-interval', '100ms', SECOND, 'Period of the eviction loop.'),
  policy: oneOf(
    '--l1-policy',
    L1_POLICIES,
    'lru',
    'Which leaf chunk is evicted first: by lru, s3-fifo, arc, or adaptive, which learns what comes back.',
  ),
  ghostCapacityChunks: integer(
    '--l1-ghosts',
    derived('a quarter of --l1-index-chunks', (known) => Math.floor(known.value<number>('--l1-index-chunks') / 4)),
    { minimum: 0, maximum: 100_000_000 },
    'Evicted chunks that are remembered, to measure the gap until they are asked for again.',
  ),
  leaseCapacity: integer('--l1-leases', 16_384, { minimum: 16, maximum: 1_000_000 }, 'Live leases at most.'),
  leaseEntryCapacity: integer(
    '--l1-lease-entries',
    1_048_576,
    { minimum: 16, maximum: 100_000_000 },
    'Chunks under lease at most, summed over all leases.',
  ),
  lifecycleSampleEvery: integer(
    '--l1-lifecycle-sample',
    1,
    { minimum: 1, maximum: 1_000_000 },
    'One of this many chunks has its lifetime measured; 1 = all.',
  ),
  pinRatioMax: ratio('--l1-pin-ratio', 0.5, 'Share of L1 that pins may hold.'),
} satisfies FieldTable<L1Options>

function indexSize(capacityBytes: number): number {
  return Math.min(1_048_576, Math.max(32_768, 2 * Math.ceil(capacityBytes / SHARD_BYTES_EXPECTED)))
}
