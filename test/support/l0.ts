import { ManualClock } from '../../src/core/clock.ts'
import { CounterTable } from '../../src/core/counters.ts'
import { HASH_WORDS, HashChain } from '../../src/core/hash-chain.ts'
import type { TenantId } from '../../src/core/ids.ts'
import type { EventSink } from '../../src/events/bus.ts'
import { L0_FIELDS, L0_TENANT_FIELDS } from '../../src/events/counters.ts'
import type { EventType } from '../../src/events/define.ts'
import { BlockManager } from '../../src/l0/block-manager.ts'
import { L0_DEFAULTS, type L0Options } from '../../src/l0/options.ts'

export interface PublishedEvent {
  readonly type: EventType
  readonly tenant: number
  readonly a: number
  readonly b: number
  readonly c: number
}

/** A sink that keeps everything. */
export function recordingSink(): EventSink & { readonly published: PublishedEvent[] } {
  const published: PublishedEvent[] = []
  return {
    published,
    publish: (type, tenant, _timeMs, a = 0, b = 0, c = 0) => void published.push({ type, tenant, a, b, c }),
  }
}

/** A block manager with 16 blocks of 16 bytes unless told otherwise, and all that it was given. */
export function makeBlocks(options: Partial<L0Options> = {}, events = recordingSink()) {
  const clock = new ManualClock()
  const tenants = new CounterTable(L0_TENANT_FIELDS, 4)
  const totals = new CounterTable(L0_FIELDS, 1)
  const blocks = new BlockManager(
    { ...L0_DEFAULTS, capacityBytes: 256, blockBytes: 16, ...options },
    { clock, events, tenants, totals },
  )
  return { blocks, clock, events, tenants, totals }
}

/** A space of one byte a token. */
export function byteSpace(chunkTokens: number, tenant = 0, ranks = 1) {
  return { tenant: tenant as TenantId, chunkTokens, chunkBytes: chunkTokens, ranks }
}

/** A chain whose chunk hashes are these numbers. */
export function chainOf(...names: number[]): HashChain {
  const chain = new HashChain(Math.max(1, names.length))
  for (const [i, name] of names.entries()) chain.words.fill(name, i * HASH_WORDS, (i + 1) * HASH_WORDS)
  chain.count = names.length
  return chain
}
