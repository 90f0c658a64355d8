import { LRUCache } from 'lru-cache'
import { ManualClock } from '../src/core/clock.ts'
import { CounterTable } from '../src/core/counters.ts'
import { HASH_WORDS, HashChain } from '../src/core/hash-chain.ts'
import type { TenantId } from '../src/core/ids.ts'
import { COPY_TENANT_FIELDS, L0_FIELDS, L0_TENANT_FIELDS } from '../src/events/counters.ts'
import { BlockManager } from '../src/l0/block-manager.ts'
import { BlockTable } from '../src/l0/block-table.ts'
import { INSTANT } from '../src/l0/device-profiles.ts'
import { L0_DEFAULTS } from '../src/l0/options.ts'
import { SimulatedDevice } from '../src/l0/simulated-device.ts'
import { SlotList } from '../src/l1/slot-list.ts'
import { L0L1Copier } from '../src/transfer/l0-l1-copier.ts'
import { formatPairs, runPairs } from './support/pairs.ts'

/**
 * L0: what a chunk of a request costs against lru-cache, and bytes through the copier against plain copies.
 *
 * A request asks for its leading run, takes it, allocates the rest, publishes and releases, no event sampled. A chunk
 * is 16 blocks; the reference only keeps one string key a chunk. Both count the same hits. The copier stores chunks
 * from a simulated device that costs no time; the reference copies the same pieces by `TypedArray.set`.
 */
const CAPACITY_CHUNKS = 8192
const REQUEST_CHUNKS = 64
const PROMPTS = 400
const REQUESTS = 1000

const parts = {
  clock: new ManualClock(),
  events: { publish: () => {} },
  tenants: new CounterTable(L0_TENANT_FIELDS, 1),
  totals: new CounterTable(L0_FIELDS, 1),
}
const space = (chunkBytes: number) => ({ tenant: 0 as TenantId, chunkTokens: 256, chunkBytes, ranks: 1 })

/** Prompts that share their first chunks with half of the others. */
const chains = Array.from({ length: PROMPTS }, (_, prompt) => {
  const chain = new HashChain(REQUEST_CHUNKS)
  for (let at = 0; at < REQUEST_CHUNKS; at += 1) {
    const owner = at < 16 ? prompt & 1 : prompt + 2
    chain.words.fill(Math.imul(owner * REQUEST_CHUNKS + at + 1, 0x9e3779b1), at * HASH_WORDS, (at + 1) * HASH_WORDS)
  }
  chain.count = REQUEST_CHUNKS
  return chain
})
const keys = chains.map((chain) => Array.from({ length: REQUEST_CHUNKS }, (_, at) => chain.hex(at)))
/** Low numbers often, high ones seldom. */
const order = Array.from({ length: REQUESTS }, (_, i) => {
  const share = (Math.imul(i + 1, 0x9e3779b1) >>> 0) / 2 ** 32
  return Math.floor(share * share * PROMPTS)
})

function requests(): { ours: () => number; theirs: () => number; check: () => void } {
  const options = { ...L0_DEFAULTS, capacityBytes: CAPACITY_CHUNKS * 4096, lifecycleSampleEvery: 2 ** 32 }
  const blocks = new BlockManager(options, parts)
  blocks.registerSpace(0, space(4096))
  const table = new BlockTable(0)
  const cache = new LRUCache<string, number>({ max: CAPACITY_CHUNKS })
  let ourHits = 0
  let theirHits = 0
  const ours = () => {
    for (const prompt of order) {
      const chain = chains[prompt]!
      const to = blocks.residentRun(0, chain, 0, REQUEST_CHUNKS)
      ourHits += to
      blocks.acquire(table, chain, 0, to)
      if (!blocks.allocate(table, chain, to, REQUEST_CHUNKS)) throw new Error('no room')
      blocks.publish(table, to, REQUEST_CHUNKS)
      blocks.release(table)
    }
    return REQUESTS * REQUEST_CHUNKS
  }
  const theirs = () => {
    for (const prompt of order) {
      const names = keys[prompt]!
      let to = 0
      while (to < REQUEST_CHUNKS && cache.has(names[to]!)) to += 1
      theirHits += to
      for (let at = 0; at < REQUEST_CHUNKS; at += 1) cache.get(names[at]!)
      for (let at = REQUEST_CHUNKS - 1; at >= 0; at -= 1) cache.set(names[at]!, at)
    }
    return REQUESTS * REQUEST_CHUNKS
  }
  const check = () => {
    if (ourHits !== theirHits) throw new Error(`hits differ: ${ourHits} and ${theirHits}`)
  }
  return { ours, theirs, check }
}

function copies(): { ours: () => number; theirs: () => number; check: () => void } {
  const chunkBytes = 1024 ** 2
  const chunks = 64
  const capacityBytes = chunks * chunkBytes
  const arena = new Uint8Array(capacityBytes).fill(1)
  const device = new SimulatedDevice({ capacityBytes, profile: INSTANT }, parts)
  device.open(capacityBytes, arena)
  const blocks = new BlockManager({ ...L0_DEFAULTS, capacityBytes }, parts)
  blocks.registerSpace(0, space(chunkBytes))
  const tenants = new CounterTable(COPY_TENANT_FIELDS, 1)
  const copier = new L0L1Copier(L0_DEFAULTS, { ...parts, blocks, device, tenants })
  const table = new BlockTable(0)
  blocks.allocate(table, chains[0]!, 0, chunks)
  blocks.publish(table, 0, chunks)
  device.memory!.fill(7)
  // Chunks go to slots in another order, so that only the blocks of one chunk merge.
  const slots = new SlotList()
  for (let at = 0; at < chunks; at += 1) slots.push(at, 0, ((at * 37) % chunks) * chunkBytes, chunkBytes)
  let ended = 0
  const ours = () => {
    copier.store(table, slots, (error) => {
      if (error === null) ended += 1
    })
    parts.clock.advance(1)
    return capacityBytes / 1024
  }
  const source = new Uint8Array(capacityBytes).fill(7)
  const target = new Uint8Array(capacityBytes).fill(1)
  const theirs = () => {
    for (let at = 0; at < chunks; at += 1) {
      target.set(source.subarray(at * chunkBytes, (at + 1) * chunkBytes), slots.offset[at]!)
    }
    return capacityBytes / 1024
  }
  const check = () => {
    if (ended === 0 || Buffer.compare(arena, target) !== 0) throw new Error('bytes differ')
  }
  return { ours, theirs, check }
}

const chunkCost = requests()
console.log('one chunk of a request')
console.log(
  formatPairs(
    await runPairs({ name: 'block manager', run: chunkCost.ours }, { name: 'lru-cache', run: chunkCost.theirs }),
  ),
)
chunkCost.check()
const copyCost = copies()
console.log('one KiB stored from device memory to the arena')
console.log(formatPairs(await runPairs({ name: 'copier', run: copyCost.ours }, { name: 'set', run: copyCost.theirs })))
copyCost.check()
