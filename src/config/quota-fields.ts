import type { QuotaOptions } from '../engine/options.ts'
import { bytes, type FieldTable } from './fields.ts'

export const quotaFields = {
  l1DefaultBytes: bytes(
    '--quota-default-l1',
    '0B',
    'Bytes of L1 that a cache salt without a quota of its own may hold, over all its models; 0 = no limit.',
  ),
  l2DefaultBytes: bytes(
    '--quota-default-l2',
    '0B',
    'The same in each L2 adapter that keeps account of salts; 0 = no limit.',
  ),
} satisfies FieldTable<QuotaOptions>
