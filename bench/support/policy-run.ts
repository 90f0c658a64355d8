import { ManualClock } from '../../src/core/clock.ts'
import { CounterTable } from '../../src/core/counters.ts'
import { HashChain } from '../../src/core/hash-chain.ts'
import { NO_LEASE, type SpaceId, type TenantId } from '../../src/core/ids.ts'
import { L1_FIELDS, L1_TENANT_FIELDS } from '../../src/events/counters.ts'
import { EvictionLoop } from '../../src/l1/eviction-loop.ts'
import { L1Cache } from '../../src/l1/l1-cache.ts'
import type { L1Options } from '../../src/l1/options.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import type { TraceBatch } from '../../src/replay/trace-batch.ts'
import { traceKeys } from '../../src/replay/trace-keys.ts'

const CHUNK_BYTES = 4096
const LEASE_MS = 60_000
const CHUNK_TOKENS = 512

/** What one run of a trace through L1 came to. */
export interface PolicyResult {
  /** 0..1, of all references. */
  readonly hitRatio: number
  /** CPU time of this thread for a reference: find, lease, serve, reserve, commit, evict. */
  readonly nsPerRef: number
}

/** How L1 is set up for a run: its size in chunks, and what the bench varies. */
export interface PolicySetup {
  readonly chunks: number
  readonly policy: L1Options['policy']
  readonly highRatio: number
  readonly lowRatio: number
}

/**
 * One L1 with its eviction loop, without bytes, that a trace goes through: each request leases what is there, stores
 * the rest, and is over before the next one comes. The loop has its turn between them.
 */
export function runPolicy(batch: TraceBatch, setup: PolicySetup): PolicyResult {
  const clock = new ManualClock()
  const totals = new CounterTable(L1_FIELDS, 1)
  const tenants = new CounterTable(L1_TENANT_FIELDS, 1)
  const loops: EvictionLoop[] = []
  const options = optionsOf(setup, longestOf(batch))
  const onPressure = () => loops[0]?.wake()
  const cache = new L1Cache(options, {
    clock,
    events: { publish() {}, enqueue() {}, flush() {} },
    tenants,
    totals,
    onPressure,
  })
  const onError = (_loop: string, error: unknown): never => {
    throw error
  }
  loops.push(new EvictionLoop({ cache, totals, clock, onError, onBeat() {} }))
  loops[0]!.start()
  const space = openSpace(cache)
  const chain = new HashChain(1)
  const grants = new SlotList()
  let hits = 0
  const cpuBefore = process.threadCpuUsage()
  for (let request = 0; request < batch.count; request += 1) {
    traceKeys(batch.ids, batch.firstId[request]!, batch.firstId[request + 1]!, chain)
    hits += ask(cache, space, chain, grants)
    clock.advance(1)
  }
  const cpu = process.threadCpuUsage(cpuBefore)
  loops[0]!.stop()
  cache.verify()
  const refs = Math.max(1, batch.idCount)
  return { hitRatio: hits / refs, nsPerRef: ((cpu.user + cpu.system) * 1000) / refs }
}

/** One request. @returns its leading hits. */
function ask(cache: L1Cache, space: SpaceId, chain: HashChain, grants: SlotList): number {
  const run = cache.residentRun(space, chain, 0, chain.count)
  cache.noteAsked(space, chain, run, chain.count)
  const read = run === 0 ? NO_LEASE : cache.lease(space, chain, 0, run, 'read', 1, LEASE_MS)
  if (read !== NO_LEASE) cache.served(read, 0, run)
  if (run < chain.count) {
    const write = cache.reserve(space, 0, chain, run, chain.count, 1, LEASE_MS, 'store', grants)
    if (write !== NO_LEASE) cache.commit(write)
  }
  if (read !== NO_LEASE) cache.release(read)
  return read === NO_LEASE ? 0 : run
}

function openSpace(cache: L1Cache): SpaceId {
  return cache.spaces.open({
    model: 'bench',
    salt: '',
    ranks: 1,
    shardBytes: CHUNK_BYTES,
    chunkTokens: CHUNK_TOKENS,
    layout: 'none',
    tenant: 0 as TenantId,
  })
}

/** The index as `serve` sizes it: twice the chunks that fit, a quarter of it for those that are remembered. */
function optionsOf(setup: PolicySetup, longest: number): L1Options {
  const indexCapacityChunks = 2 * setup.chunks + 1024
  return {
    capacityBytes: setup.chunks * CHUNK_BYTES,
    extentBytes: setup.chunks * CHUNK_BYTES,
    indexCapacityChunks,
    indexCapacityShards: indexCapacityChunks,
    evictionHighRatio: setup.highRatio,
    evictionLowRatio: setup.lowRatio,
    evictionIntervalMs: 100,
    policy: setup.policy,
    ghostCapacityChunks: Math.floor(indexCapacityChunks / 4),
    leaseCapacity: 64,
    leaseEntryCapacity: 2 * longest + 64,
    lifecycleSampleEvery: 64,
    isolation: 'none',
    isolationModels: 1,
    pinRatioMax: 0.5,
  }
}

function longestOf({ firstId, count }: TraceBatch): number {
  let longest = 1
  for (let request = 0; request < count; request += 1) {
    longest = Math.max(longest, firstId[request + 1]! - firstId[request]!)
  }
  return longest
}
