import type { TransferOptions } from '../transfer/options.ts'
import { bytes, derived, duration, type FieldTable, integer, ratio } from './fields.ts'

const MIB = 1024 ** 2

export const transferFields = {
  storeBudgetBytes: bytes(
    '--transfer-store-budget',
    derived('an eighth of --l1-size, at most 256MiB', (known) => {
      return Math.max(MIB, Math.min(256 * MIB, Math.floor(known.value<number>('--l1-size') / 8)))
    }),
    'Bytes of L2 stores in flight to one adapter at most. L1 cannot evict what is in flight.',
    MIB,
  ),
  storePendingBytes: bytes(
    '--transfer-store-pending',
    derived('--l1-size', (known) => known.value<number>('--l1-size')),
    'Bytes of shards waiting for one adapter at most; further ones are skipped and counted.',
    MIB,
  ),
  storeBatches: integer(
    '--transfer-store-batches',
    8,
    { minimum: 1, maximum: 1024 },
    'Batches of L2 stores in flight to one adapter at most; what waits meanwhile goes in larger batches.',
  ),
  storeQueueShards: integer(
    '--transfer-store-queue',
    65_536,
    { minimum: 1, maximum: 16_777_216 },
    'Shards waiting for one adapter at most; further ones are skipped and counted.',
  ),
  batchShards: integer(
    '--transfer-batch',
    64,
    { minimum: 1, maximum: 65_536 },
    'Shards of one L2 store or load batch at most.',
  ),
  loadBudgetBytes: bytes(
    '--transfer-load-budget',
    derived('a quarter of --l1-size', (known) => Math.floor(known.value<number>('--l1-size') / 4)),
    'L1 bytes reserved by L2 loads in flight at most, over all adapters.',
    MIB,
  ),
  loadPendingBytes: bytes(
    '--transfer-load-pending',
    derived('--l1-size', (known) => known.value<number>('--l1-size')),
    'Bytes of loads that wait for one adapter at most; further ones are skipped and counted.',
    MIB,
  ),
  skipSlowerTokensPerSecond: integer(
    '--transfer-load-skip-slower',
    0,
    { minimum: 0, maximum: 100_000_000 },
    'Tokens that the inference server computes a second: loads estimated to take longer are skipped; 0 = none.',
  ),
  writeBackRatio: ratio(
    '--transfer-write-back-at',
    0.9,
    'Fill level of L1 from which adapters with write=back get the oldest chunks that they lack.',
  ),
  prefetchJobs: integer(
    '--transfer-prefetch-jobs',
    256,
    { minimum: 1, maximum: 65_536 },
    'Prefetch jobs at most; a lookup past it is answered from L0 and L1 alone.',
  ),
  storeIntervalMs: duration(
    '--transfer-store-interval',
    '250ms',
    { minimumMs: 1, maximumMs: 60_000 },
    'Period of the store loop; a commit and the end of a batch also wake it.',
  ),
} satisfies FieldTable<TransferOptions>
