import type { ChunkTable } from '../chunk-table.ts'
import type { L1PolicyName } from '../options.ts'
import { AdaptivePolicy } from './adaptive.ts'
import { ArcPolicy } from './arc.ts'
import { LruPolicy } from './lru.ts'
import type { EvictionPolicy } from './policy.ts'
import { S3FifoPolicy } from './s3-fifo.ts'

/** The policy of a name, over the records of a table. A table has one policy. */
export function makePolicy(name: L1PolicyName, table: ChunkTable): EvictionPolicy {
  switch (name) {
    case 'lru':
      return new LruPolicy(table)
    case 's3-fifo':
      return new S3FifoPolicy(table)
    case 'arc':
      return new ArcPolicy(table)
    case 'adaptive':
      return new AdaptivePolicy(table)
  }
}
