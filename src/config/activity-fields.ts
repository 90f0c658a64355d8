import type { ActivityOptions } from '../activities/options.ts'
import { bytes, duration, type FieldTable } from './fields.ts'

const YEARS_MS = 100 * 365 * 86_400_000

export const activityFields = {
  retentionMs: duration(
    '--activities-retention',
    '365d',
    { minimumMs: 0, maximumMs: YEARS_MS },
    'How long records of the activity log are kept; 0s = forever.',
  ),
  sizeMaxBytes: bytes(
    '--activities-size',
    '1GiB',
    'Size of the activity log, indexes included, above which its oldest records go; 0 = no limit.',
  ),
} satisfies FieldTable<ActivityOptions>
