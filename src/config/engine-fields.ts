import type { EngineOptions } from '../engine/options.ts'
import { duration, type FieldTable, integer } from './fields.ts'

export const engineFields = {
  chunkTokens: integer('--chunk-tokens', 256, { minimum: 1, maximum: 65_536 }, 'Tokens of one chunk.'),
  leaseTtlMs: duration(
    '--lease-ttl',
    '30s',
    { minimumMs: 100, maximumMs: 3_600_000 },
    "Life of a client's lease, from when it was given or renewed.",
  ),
  sessions: integer(
    '--sessions',
    16_384,
    { minimum: 1, maximum: 1_000_000 },
    'Open sessions at most; the one used longest ago is closed for a new one.',
  ),
  sweepIntervalMs: duration(
    '--sweep-interval',
    '250ms',
    { minimumMs: 10, maximumMs: 60_000 },
    'Period of the sweep over leases and abandoned lookups.',
  ),
  hashInlineChunks: integer(
    '--hash-inline-chunks',
    16,
    { minimum: 0, maximum: 65_536 },
    'Prompts of up to this many chunks are hashed at once; longer ones on a thread of their own, in fair turns.',
  ),
  models: integer('--models', 256, { minimum: 1, maximum: 65_536 }, 'Models at most that may be registered.'),
} satisfies FieldTable<EngineOptions>
