import { expect, it } from 'vitest'
import { HASH_BYTES, HashChain } from '../../src/core/hash-chain.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../../src/core/ids.ts'
import type { DeviceRequest } from '../../src/engine/device-path.ts'
import type { Lookup } from '../../src/engine/lookup.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { ADAPTER_LIMITS_DEFAULT } from '../../src/l2/options.ts'
import { fillPattern, matchesPattern } from '../../src/replay/chunk-pattern.ts'
import { checkLaws, checkLawsAtRest } from '../support/conservation-laws.ts'
import { KIB, makeEngine, settle } from '../support/engine.ts'
import { FAULTS, FaultAdapter } from '../support/fault-adapter.ts'
import { random } from '../support/random.ts'

/** One of this many L2 operations meets a fault. */
const FAULT_EVERY = 6
const LIMITS = { ...ADAPTER_LIMITS_DEFAULT, storeDeadlineMs: 500, loadDeadlineMs: 500, lookupDeadlineMs: 200 }

/** A prompt of a small tree: long common prefixes, a few branches. Hashes name their place in the tree. */
function promptOf(next: (limit: number) => number): HashChain {
  const length = 1 + next(12)
  const bytes = new Uint8Array(length * HASH_BYTES)
  let node = next(2) + 1
  for (let index = 0; index < length; index += 1) {
    if (index % 4 === 0) node = node * 4 + next(2)
    else node = node * 4 + 3
    const seeded = random(node)
    for (let at = 0; at < HASH_BYTES; at += 1) bytes[index * HASH_BYTES + at] = seeded(256)
  }
  return HashChain.of(bytes)
}

interface Writer {
  readonly space: SpaceId
  readonly rank: number
  readonly lease: LeaseId
  readonly chain: HashChain
  readonly grants: SlotList
}

/** Everything that clients, adapters and the device may do to an engine, in any order. */
class Storm {
  readonly setup
  readonly next: (limit: number) => number
  readonly spaces: SpaceId[] = []
  readonly lookups: Lookup[] = []
  readonly writers: Writer[] = []
  /** Leases of writers that died. Some time later it is known that they did. */
  readonly dead: LeaseId[] = []
  readonly requests: DeviceRequest[] = []
  readonly adapters: FaultAdapter[] = []
  verified = 0

  constructor(seed: number, faults: boolean) {
    this.next = random(seed)
    this.setup = makeEngine({ seed, l0Bytes: 48 * KIB })
    for (const capacityBytes of [0, 40 * KIB]) {
      const adapter = new FaultAdapter(this.setup.clock, { capacityBytes, slowMs: 20 })
      const chance = random(seed + capacityBytes)
      if (faults) adapter.nextFault = () => (chance(FAULT_EVERY) === 0 ? FAULTS[chance(FAULTS.length)]! : 'slow')
      this.adapters.push(adapter)
    }
  }

  async start(): Promise<void> {
    const { engine, start } = this.setup
    for (const [at, adapter] of this.adapters.entries()) await engine.adapters.add(`l2-${at}`, adapter, LIMITS)
    this.spaces.push(
      engine.openSpace({ model: 'small', salt: '', ranks: 1, shardBytes: 1_024, layout: 'a' }),
      engine.openSpace({ model: 'small', salt: 'tenant', ranks: 1, shardBytes: 1_024, layout: 'a' }),
      engine.openSpace({ model: 'wide', salt: '', ranks: 2, shardBytes: 1_536, layout: 'b' }),
    )
    start()
  }

  async step(): Promise<void> {
    const { clock } = this.setup
    const act = this.next(100)
    if (act < 22) this.look()
    else if (act < 36) this.retrieve()
    else if (act < 44) this.letGo()
    else if (act < 60) this.reserve()
    else if (act < 72) this.commit()
    else if (act < 75) this.abort()
    else if (act < 82) this.device()
    else if (act < 84) this.pin()
    else if (act < 85) await this.clear()
    else if (act < 86) this.injectDeviceFault()
    else if (act < 87) this.flipAdapter()
    else clock.advance(this.next(60))
    if (this.next(80) === 0) clock.advance(1_500) // leases and abandoned lookups expire
    if (this.next(40) === 0) this.pick(this.adapters)?.release() // a stuck operation comes back to life
    await settle(clock, 1)
    this.setup.recorder.drain(2 ** 16)
  }

  look(): void {
    const { engine } = this.setup
    const lookup = engine.lookup(this.space(), promptOf(this.next), engine.sessions.nextOwner())
    this.lookups.push(lookup)
  }

  retrieve(): void {
    const lookup = this.pick(this.lookups.filter(({ state, loadedTo }) => state === 'final' && loadedTo > 0))
    if (lookup === undefined) return
    const { engine } = this.setup
    const slots = new SlotList()
    const to = 1 + this.next(lookup.loadedTo)
    if (!engine.slots(lookup, -1, 0, to, slots)) return
    this.verify(lookup.chain, slots)
    engine.served(lookup, 0, to)
  }

  /** Leased bytes are those that were stored, whatever moved, failed or was evicted meanwhile. */
  verify(chain: HashChain, slots: SlotList): void {
    for (let row = 0; row < slots.count; row += 1) {
      const bytes = this.setup.memory!.subarray(slots.offset[row]!, slots.offset[row]! + slots.length[row]!)
      const isRight = matchesPattern(bytes, chain, slots.chainIndex[row]!, new Uint8Array(bytes.length))
      expect(isRight, 'bytes of a leased chunk').toBe(true)
      this.verified += 1
    }
  }

  letGo(): void {
    const lookup = this.take(this.lookups)
    if (lookup !== undefined && !this.requests.some((request) => request.lookup === lookup)) {
      this.setup.engine.release(lookup)
    }
  }

  reserve(): void {
    const { engine } = this.setup
    const space = this.space()
    const { ranks } = engine.l1.spaces.spec(space)
    const chain = promptOf(this.next)
    const from = this.next(2) === 0 ? 0 : this.next(chain.count)
    const rank = this.next(ranks)
    const grants = new SlotList()
    const owner = engine.sessions.nextOwner()
    const lease = engine.reserve(space, rank, chain, from, chain.count, owner, grants)
    if (lease !== NO_LEASE) this.writers.push({ space, rank, lease, chain, grants })
  }

  commit(): void {
    const writer = this.take(this.writers)
    if (writer === undefined) return
    if (this.next(10) === 0) {
      this.dead.push(writer.lease) // it dies between reserve and commit: its slots will be quarantined
      return
    }
    const { grants, chain } = writer
    for (let row = 0; row < grants.count; row += 1) {
      const end = grants.offset[row]! + grants.length[row]!
      fillPattern(this.setup.memory!.subarray(grants.offset[row]!, end), chain, grants.chainIndex[row]!)
    }
    this.setup.engine.commit(writer.space, writer.rank, writer.lease)
  }

  abort(): void {
    const lease = this.take(this.dead)
    if (lease !== undefined) this.setup.engine.l1.fence(lease)
    const writer = this.take(this.writers)
    if (writer !== undefined) this.setup.engine.l1.abort(writer.lease)
  }

  device(): void {
    const { engine } = this.setup
    const path = engine.device!
    const lookup = this.pick(this.lookups)
    if (lookup === undefined || lookup.state !== 'final') return
    if (this.requests.some((one) => one.lookup === lookup)) return
    const request = path.begin(lookup)
    this.requests.push(request)
    path.fetch(engine, request, () => {
      if (path.extend(request)) this.compute(request)
      path.computed(request)
      path.store(engine, request, () => {
        path.end(request)
        this.requests.splice(this.requests.indexOf(request), 1)
        this.lookups.splice(this.lookups.indexOf(lookup), 1)
        engine.release(lookup)
      })
    })
  }

  /** The inference server writes what it computed into the blocks of its chunks. */
  compute({ table, lookup }: DeviceRequest): void {
    const { engine, device } = this.setup
    const { blocks } = engine.device!
    const { shardBytes, ranks } = engine.l1.spaces.spec(lookup.space)
    const bytes = new Uint8Array(shardBytes * ranks)
    for (let index = table.from; index < table.to; index += 1) {
      if (!blocks.needsFill(table, index) || device!.memory === null) continue
      for (let rank = 0; rank < ranks; rank += 1) {
        fillPattern(bytes.subarray(rank * shardBytes, (rank + 1) * shardBytes), lookup.chain, index)
      }
      let written = 0
      for (let block = blocks.firstBlock(table.runOf(index)); written < bytes.length; block = blocks.nextBlock(block)) {
        const piece = bytes.subarray(written, written + blocks.blockBytes)
        device!.memory.set(piece, block * blocks.blockBytes)
        written += piece.length
      }
    }
  }

  pin(): void {
    const { engine } = this.setup
    const pins = engine.pins.list()
    if (pins.length > 0 && this.next(2) === 0) engine.pins.unpin(pins[this.next(pins.length)]!.id)
    else engine.pins.pin(this.space(), promptOf(this.next), engine.sessions.nextOwner())
  }

  async clear(): Promise<void> {
    const tiers = { l0: this.next(2) === 0, l1: true, l2: false }
    await this.setup.engine.clear(this.next(2) === 0 ? { model: 'small', salt: 'tenant' } : { model: 'wide' }, tiers)
  }

  injectDeviceFault(): void {
    this.setup.device!.inject({ atSubmit: 1 + this.next(3), kind: 'once' })
  }

  flipAdapter(): void {
    const { adapters } = this.setup.engine
    const adapter = adapters.all()[this.next(2)]!
    if (adapter.state === 'active') void adapters.drain(adapter.name, 1)
    else if (adapter.state === 'draining') adapters.undrain(adapter.name)
  }

  /** Ends everything, waits until all is still. */
  async finish(): Promise<void> {
    const { clock, engine, recorder, stop } = this.setup
    for (const adapter of this.adapters) adapter.nextFault = () => 'none'
    for (const writer of this.writers) engine.l1.abort(writer.lease)
    for (const lease of this.dead) engine.l1.abort(lease)
    for (const pin of engine.pins.list()) engine.pins.unpin(pin.id)
    for (let turn = 0; turn < 200; turn += 1) {
      for (const adapter of this.adapters) adapter.release()
      clock.advance(1_000)
      await settle(clock, 2)
      recorder.drain(2 ** 16)
    }
    for (const lookup of this.lookups) engine.release(lookup)
    stop()
    await settle(clock)
  }

  space(): SpaceId {
    return this.spaces[this.next(this.spaces.length)]!
  }

  pick<T>(items: T[]): T | undefined {
    return items[this.next(Math.max(1, items.length))]
  }

  take<T>(items: T[]): T | undefined {
    return items.splice(this.next(Math.max(1, items.length)), 1)[0]
  }
}

const cases = [1, 2, 3, 4, 5, 6].flatMap((seed) => [true, false].map((faults) => ({ seed, faults })))

it.each(cases)(
  'every conservation law holds after every step (seed $seed, faults $faults)',
  async ({ seed, faults }) => {
    const storm = new Storm(seed, faults)
    await storm.start()
    for (let step = 0; step < 3_000; step += 1) {
      await storm.step()
      checkLaws(storm.setup.engine)
    }
    await storm.finish()
    const lifetimes = storm.setup.recorder.histograms('cache_mp_l1_chunk_lifetime_seconds')
    const samples = lifetimes.series.reduce((sum, row) => sum + lifetimes.count(row), 0)
    checkLawsAtRest(storm.setup.engine, samples)
    expect(storm.verified).toBeGreaterThan(50)
    expect(storm.setup.cells.l2Tenants.sum('loadCompletedObjects')).toBeGreaterThan(0)
    expect(storm.setup.errors.filter(({ error }) => (error as Error).name === 'AssertionError')).toEqual([])
  },
)
