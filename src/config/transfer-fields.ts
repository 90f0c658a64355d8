import type { TransferOptions } from '../transfer/options.ts'
import { bytes, derived, duration, type FieldTable, integer } from './fields.ts'

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
