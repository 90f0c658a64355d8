import { ManualClock } from '../../src/core/clock.ts'
import { CounterTable } from '../../src/core/counters.ts'
import { HashChain } from '../../src/core/hash-chain.ts'
import type { SpaceId, TenantId } from '../../src/core/ids.ts'
import type { EventBatchSink } from '../../src/events/bus.ts'
import { L1_FIELDS, L1_TENANT_FIELDS } from '../../src/events/counters.ts'
import type { EventType } from '../../src/events/define.ts'
import { L1Cache, type L1Parts } from '../../src/l1/l1-cache.ts'
import type { L1Options } from '../../src/l1/options.ts'

export const TENANT_ROWS = 4

export interface SeenEvent {
  readonly name: string
  readonly tenant: number
  readonly timeMs: number
  readonly values: readonly number[]
}

/** Keeps what was published. */
export class EventLog implements EventBatchSink {
  readonly events: SeenEvent[] = []
  readonly #held: SeenEvent[] = []

  publish(type: EventType, tenant: number, timeMs: number, a = 0, b = 0, c = 0): void {
    this.enqueue(type, tenant, timeMs, a, b, c)
    this.flush()
  }

  enqueue(type: EventType, tenant: number, timeMs: number, a = 0, b = 0, c = 0): void {
    this.#held.push({ name: type.name, tenant, timeMs, values: [a, b, c].slice(0, type.payload.length) })
  }

  flush(): void {
    this.events.push(...this.#held.splice(0))
  }

  named(type: EventType): SeenEvent[] {
    return this.events.filter((event) => event.name === type.name)
  }
}

export const SMALL_L1: L1Options = {
  capacityBytes: 64,
  extentBytes: 16,
  indexCapacityChunks: 256,
  indexCapacityShards: 256,
  evictionHighRatio: 0.9,
  evictionLowRatio: 0.8,
  evictionIntervalMs: 100,
  policy: 'lru',
  ghostCapacityChunks: 16,
  leaseCapacity: 32,
  leaseEntryCapacity: 512,
  lifecycleSampleEvery: 1,
  isolation: 'none',
  isolationModels: 1,
  pinRatioMax: 0.5,
}

/** An L1 with its cells, clock and events in reach. */
export function makeL1(options: Partial<L1Options> = {}, parts: Partial<L1Parts> = {}) {
  const clock = new ManualClock()
  const events = new EventLog()
  const tenants = new CounterTable(L1_TENANT_FIELDS, TENANT_ROWS)
  const totals = new CounterTable(L1_FIELDS, 1)
  const cache = new L1Cache({ ...SMALL_L1, ...options }, { clock, events, tenants, totals, ...parts })
  return { cache, clock, events, tenants, totals }
}

export function openSpace(
  cache: L1Cache,
  spec: { salt?: string; model?: string; ranks?: number; shardBytes?: number; tenant?: number } = {},
): SpaceId {
  return cache.spaces.open({
    model: spec.model ?? 'model',
    salt: spec.salt ?? '',
    ranks: spec.ranks ?? 1,
    shardBytes: spec.shardBytes ?? 1,
    chunkTokens: 16,
    layout: 'test',
    tenant: (spec.tenant ?? 0) as TenantId,
  })
}

/** A chain whose chunk i is named by `path[0..i]`: equal paths give equal hashes, as in a real chain. */
export function chainOf(path: readonly number[]): HashChain {
  const chain = new HashChain(Math.max(1, path.length))
  let state = 0x9e3779b9
  path.forEach((name, index) => {
    state = mix(state ^ mix(name + 1))
    for (let word = 0; word < 8; word += 1) chain.words[index * 8 + word] = mix(state + word * 0x85ebca6b)
  })
  chain.count = path.length
  return chain
}

function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x7feb352d)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x846ca68b)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
