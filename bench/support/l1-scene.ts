import { SystemClock } from '../../src/core/clock.ts'
import { CounterTable } from '../../src/core/counters.ts'
import { HASH_WORDS, HashChain } from '../../src/core/hash-chain.ts'
import { NO_LEASE, type SpaceId, type TenantId } from '../../src/core/ids.ts'
import { L1_FIELDS, L1_TENANT_FIELDS } from '../../src/events/counters.ts'
import { ChunkRefs } from '../../src/l1/chunk-refs.ts'
import { L1Cache } from '../../src/l1/l1-cache.ts'
import type { L1PolicyName } from '../../src/l1/options.ts'
import { SlotList } from '../../src/l1/slot-list.ts'

export const RUN_CHUNKS = 16
export const BATCH_RUNS = 64
const SHARD_BYTES = 4096
/** The machine may stand still. */
const LEASE_MS = 3_600_000
const SLICE_RUNS = 128
const RECENT_RATIO = 0.4
/** Tries among recent runs, after which any run in L1 will do: not every policy keeps the recent ones. */
const RECENT_TRIES = 64
/** Runs that are stored at most after L1 was filled. */
const STORED_MAX = 2 ** 17

/** What filling took. */
export interface Filled {
  readonly fillNs: number
  /** Longest slice of the filling, by the wall, and in CPU time of the thread: without what others took of it. */
  readonly longestPauseMs: number
  readonly longestPauseCpuMs: number
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

export function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 16), 0x7feb352d)
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x846ca68b)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

/** Hash of chunk number `chunk`: eight words that look random. */
export function writeHash(words: Uint32Array, at: number, chunk: number): void {
  let state = Math.imul(chunk + 1, 0x9e3779b1)
  for (let word = 0; word < HASH_WORDS; word += 1) {
    state = mix(state + 0x6d2b79f5)
    words[at + word] = state
  }
}

/** The reference: linear probing, one key of 32 bytes and a payload an entry, two thirds full. */
export class BareTable {
  readonly #entryWords: number
  readonly #entries: Uint32Array
  readonly #capacity: number

  constructor(chunks: number, entryBytes: number) {
    this.#entryWords = Math.round(entryBytes / 4)
    this.#capacity = Math.ceil(chunks * 1.5)
    this.#entries = new Uint32Array(this.#capacity * this.#entryWords)
  }

  insert(words: Uint32Array, at: number): void {
    let place = this.#home(words[at]!)
    while (this.#entries[place * this.#entryWords] !== 0) place = place + 1 === this.#capacity ? 0 : place + 1
    this.#entries.set(words.subarray(at, at + HASH_WORDS), place * this.#entryWords)
  }

  find(words: Uint32Array, at: number): number {
    const entries = this.#entries
    let place = this.#home(words[at]!)
    for (;;) {
      const entry = place * this.#entryWords
      if (entries[entry] === 0) return -1
      let word = 0
      while (word < HASH_WORDS && entries[entry + word] === words[at + word]) word += 1
      if (word === HASH_WORDS) return place
      place = place + 1 === this.#capacity ? 0 : place + 1
    }
  }

  #home(word: number): number {
    return Math.floor((word / 4294967296) * this.#capacity)
  }
}

/** An L1 of metadata alone, full of chunks in runs of 16, and batches of work on it. */
export class L1Scene {
  readonly cache: L1Cache
  readonly space: SpaceId
  readonly #chains = Array.from({ length: BATCH_RUNS }, () => new HashChain(RUN_CHUNKS))
  readonly #keys = new Uint32Array(BATCH_RUNS * RUN_CHUNKS * HASH_WORDS)
  readonly #grants = new SlotList()
  readonly #committed = new ChunkRefs(RUN_CHUNKS)
  readonly #residentRuns: number
  /** By record: the run of the chunk that was stored there last. */
  readonly #runOf: Uint32Array
  /** By run: 1 = stored, and none of its chunks has been evicted since. */
  readonly #isWhole: Uint8Array
  #stored = 0
  #seed = 1

  constructor(chunks: number, policy: L1PolicyName) {
    this.#residentRuns = Math.floor(chunks / RUN_CHUNKS)
    const resident = this.#residentRuns * RUN_CHUNKS
    const ghosts = Math.floor(chunks * 0.01)
    this.#runOf = new Uint32Array(resident + ghosts + 4)
    this.#isWhole = new Uint8Array(this.#residentRuns + STORED_MAX)
    this.cache = new L1Cache(
      {
        capacityBytes: resident * SHARD_BYTES,
        extentBytes: 0,
        indexCapacityChunks: resident + ghosts,
        indexCapacityShards: resident,
        evictionHighRatio: 1,
        evictionLowRatio: 1,
        evictionIntervalMs: 100,
        policy,
        ghostCapacityChunks: ghosts,
        leaseCapacity: 256,
        leaseEntryCapacity: 4096,
        lifecycleSampleEvery: 64,
        isolation: 'none',
        isolationModels: 1,
        pinRatioMax: 0.5,
      },
      {
        clock: new SystemClock(),
        events: { publish() {}, enqueue() {}, flush() {} },
        tenants: new CounterTable(L1_TENANT_FIELDS, 1),
        totals: new CounterTable(L1_FIELDS, 1),
        onEvicted: (id) => {
          this.#isWhole[this.#runOf[id]!] = 0
        },
      },
    )
    this.space = this.cache.spaces.open({
      model: 'bench',
      salt: '',
      ranks: 1,
      shardBytes: SHARD_BYTES,
      chunkTokens: 16,
      layout: 'none',
      tenant: 0 as TenantId,
    })
    for (const chain of this.#chains) chain.count = RUN_CHUNKS
  }

  /** Bytes of the arrays by which the scene knows what L1 has: they are not of L1. */
  get ownBytes(): number {
    return this.#runOf.byteLength + this.#isWhole.byteLength
  }

  /** Fills every slot, in slices of 2,048 chunks. */
  fill(): Filled {
    const chain = this.#chains[0]!
    let longest = 0
    let longestCpu = 0
    let sliceCpu = cpuMs()
    const start = performance.now()
    let sliceStart = start
    for (let run = 1; run <= this.#residentRuns; run += 1) {
      this.#name(chain.words, 0, this.#stored)
      this.#storeRun(chain)
      if (run % SLICE_RUNS !== 0) continue
      const now = performance.now()
      const cpu = cpuMs()
      longest = Math.max(longest, now - sliceStart)
      longestCpu = Math.max(longestCpu, cpu - sliceCpu)
      sliceStart = now
      sliceCpu = cpu
    }
    const fillNs = ((sliceStart - start) * 1e6) / (this.#residentRuns * RUN_CHUNKS)
    return { fillNs, longestPauseMs: longest, longestPauseCpuMs: longestCpu }
  }

  /** One batch of lookups of resident runs. @returns ms. */
  hits(): number {
    for (const chain of this.#chains) this.#name(chain.words, 0, this.#anyWhole())
    const start = performance.now()
    for (const chain of this.#chains) this.#readRun(chain)
    return performance.now() - start
  }

  /** One batch of stores; each evicts as much as it brings. @returns ms. */
  stores(): number {
    this.#chains.forEach((chain, at) => {
      this.#name(chain.words, 0, this.#stored + at)
    })
    const start = performance.now()
    for (const chain of this.#chains) this.#storeRun(chain)
    return performance.now() - start
  }

  /** As many random reads of the reference as a batch has chunks. @returns ms. */
  probe(table: BareTable): number {
    const chunks = this.#residentRuns * RUN_CHUNKS
    const count = BATCH_RUNS * RUN_CHUNKS
    for (let at = 0; at < count; at += 1) writeHash(this.#keys, at * HASH_WORDS, this.#random(chunks))
    const start = performance.now()
    for (let at = 0; at < count; at += 1) {
      if (table.find(this.#keys, at * HASH_WORDS) < 0) throw new Error('the reference lost a key')
    }
    return performance.now() - start
  }

  makeReference(entryBytes: number): BareTable {
    const chunks = this.#residentRuns * RUN_CHUNKS
    const table = new BareTable(chunks, entryBytes)
    for (let chunk = 0; chunk < chunks; chunk += 1) {
      writeHash(this.#keys, 0, chunk)
      table.insert(this.#keys, 0)
    }
    return table
  }

  #readRun(chain: HashChain): void {
    const { cache, space } = this
    const run = cache.residentRun(space, chain, 0, RUN_CHUNKS)
    const lease = cache.lease(space, chain, 0, run, 'read', 1, LEASE_MS)
    if (run !== RUN_CHUNKS || cache.served(lease, 0, run) !== run) throw new Error('a resident run was not served')
    cache.release(lease)
  }

  #storeRun(chain: HashChain): void {
    const { cache, space } = this
    if (this.#stored === this.#isWhole.length) throw new Error('more runs than the scene can follow')
    if (cache.residentRun(space, chain, 0, RUN_CHUNKS) !== 0) throw new Error('a new run is resident')
    const lease = cache.reserve(space, 0, chain, 0, RUN_CHUNKS, 1, LEASE_MS, 'store', this.#grants)
    this.#committed.clear()
    const isStored = lease !== NO_LEASE && cache.commit(lease, null, this.#committed) === RUN_CHUNKS
    if (!isStored) throw new Error('a run was not stored')
    for (let at = 0; at < RUN_CHUNKS; at += 1) this.#runOf[this.#committed.id[at]!] = this.#stored
    this.#isWhole[this.#stored] = 1
    this.#stored += 1
  }

  #name(words: Uint32Array, at: number, run: number): void {
    for (let chunk = 0; chunk < RUN_CHUNKS; chunk += 1) {
      writeHash(words, at + chunk * HASH_WORDS, run * RUN_CHUNKS + chunk)
    }
  }

  /** A run that L1 has, of the recent ones if it keeps them. */
  #anyWhole(): number {
    const recent = Math.max(1, Math.floor(this.#residentRuns * RECENT_RATIO))
    for (let tried = 0; ; tried += 1) {
      const run = this.#stored - 1 - this.#random(tried < RECENT_TRIES ? recent : this.#stored)
      if (this.#isWhole[run] === 1) return run
    }
  }

  #random(limit: number): number {
    this.#seed = mix(this.#seed + 0x6d2b79f5)
    return this.#seed % limit
  }
}
