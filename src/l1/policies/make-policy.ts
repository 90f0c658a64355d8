import type { ChunkTable } from '../chunk-table.ts'
import type { L1Options } from '../options.ts'
import { LruPolicy } from './lru.ts'
import type { EvictionPolicy } from './policy.ts'

/** The policy of a name, over the records of a table. */
export function makePolicy(name: L1Options['policy'], table: ChunkTable): EvictionPolicy {
  switch (name) {
    case 'lru':
      return new LruPolicy(table)
    default:
      throw new Error(`policy ${name} is not built yet`)
  }
}
