import { expect } from 'vitest'
import type { HashChain } from '../../src/core/hash-chain.ts'
import type { SpaceId } from '../../src/core/ids.ts'
import type { Lookup } from '../../src/engine/lookup.ts'
import type { L2Adapter } from '../../src/l2/adapter.ts'
import type { Attached } from '../../src/l2/adapter-set.ts'
import { ADAPTER_LIMITS_DEFAULT, type AdapterLimits } from '../../src/l2/options.ts'
import { checkLaws } from './conservation-laws.ts'
import { KIB, makeEngine } from './engine.ts'
import { chainOf, holdsRightBytes, storeChain } from './engine-client.ts'
import { random } from './random.ts'
import { until } from './until.ts'

/** Large enough that a connection, or a disk, ends in the middle of one. */
export const DRILL_SHARD_BYTES = 64 * KIB
export const DRILL_MODEL = { model: 'drill', ranks: 1, shardBytes: DRILL_SHARD_BYTES, layout: 'drill' } as const
/** Chains that traffic chooses from; L1 holds half of their chunks. */
const CHAINS = 12
const CHUNKS = 6
const L1_BYTES = 36 * DRILL_SHARD_BYTES
/** Clients at the same time. */
const CLIENTS = 4
/** Held in L1 by a lease for the whole drill. */
const RESIDENT = 'zzzz'

/** Short, so that a drill ends soon; all outages last longer. */
const LIMITS: AdapterLimits = {
  ...ADAPTER_LIMITS_DEFAULT,
  storeDeadlineMs: 800,
  loadDeadlineMs: 800,
  lookupDeadlineMs: 400,
  abandonAfterMs: 100,
  retries: 1,
  retryDelayMs: 10,
  circuitFailures: 3,
  circuitOpenMs: 200,
}

/**
 * A whole engine with one adapter, under the traffic of a few clients: chains are looked up, and stored when they are
 * not there. After every step each law holds, and every promised byte is the one that was stored.
 * The engine's clock follows the machine's, because servers of other processes do.
 */
export class OutageDrill {
  readonly attached: Attached
  readonly setup: ReturnType<typeof makeEngine>
  readonly #next: (limit: number) => number
  readonly #space: SpaceId
  readonly #resident: Lookup
  #pump: NodeJS.Timeout | undefined
  #fresh = 0
  /** Chunks that lookups had from L2, since the start. */
  l2Hits = 0

  private constructor(setup: OutageDrill['setup'], attached: Attached, seed: number) {
    this.setup = setup
    this.attached = attached
    this.#next = random(seed)
    this.#space = setup.engine.openSpace({ ...DRILL_MODEL, salt: '' })
    let beforeMs = performance.now()
    this.#pump = setInterval(() => {
      const nowMs = performance.now()
      setup.clock.advance(nowMs - beforeMs)
      beforeMs = nowMs
    }, 2)
    setup.start()
    expect(storeChain(setup.engine, setup.memory!, this.#space, chainOf(RESIDENT))).toBe(RESIDENT.length)
    this.#resident = setup.engine.lookup(this.#space, chainOf(RESIDENT), setup.engine.sessions.nextOwner())
  }

  static async start(adapter: L2Adapter, seed: number): Promise<OutageDrill> {
    const l1 = { capacityBytes: L1_BYTES, extentBytes: 4 * DRILL_SHARD_BYTES }
    const budget = 8 * DRILL_SHARD_BYTES
    const transfer = { storeBudgetBytes: budget, storeBatches: 4, batchShards: 2 }
    const setup = makeEngine({ seed, l1, loadBudgetBytes: budget, transfer })
    const attached = await setup.engine.adapters.add('drill', adapter, LIMITS)
    return new OutageDrill(setup, attached, seed)
  }

  /** Lets the clients do so many things in all. Each thing ends, whatever the adapter does. */
  async traffic(acts: number): Promise<void> {
    let left = acts
    const client = async () => {
      for (; left > 0; ) {
        left -= 1
        await this.#act()
      }
    }
    await Promise.all(Array.from({ length: CLIENTS }, client))
  }

  /** Lets traffic run until L2 has something to lose. */
  async warms(): Promise<void> {
    await until('L2 serves', async () => {
      await this.traffic(5 * CLIENTS)
      return this.l2Hits > 0 || undefined
    })
  }

  /** Lets traffic run until L2 serves and takes objects again, by itself. */
  async recovers(): Promise<void> {
    const { l2Hits } = this
    const stored = this.#stored()
    const needsStores = this.attached.isStorable
    await until(
      'L2 serves again',
      async () => {
        await this.traffic(CLIENTS)
        if (needsStores) this.#storeAnew()
        const isBack = this.l2Hits > l2Hits && (!needsStores || this.#stored() > stored)
        return (isBack && this.attached.circuit.state === 0) || undefined
      },
      30_000,
    )
  }

  /** Waits until nothing is in flight, and checks that everything was given back. */
  async rests(): Promise<void> {
    const { engine, cells } = this.setup
    await until('nothing is in flight', () => {
      const { stores, loads, others, abandoned } = this.attached.inFlight()
      const isIdle = stores + loads + others + abandoned === 0 && engine.stores.queuedShards === 0
      return (isIdle && cells.engine.get(0, 'activePrefetchJobs') === 0) || undefined
    })
    checkLaws(engine)
    expect(cells.l2.get(this.attached.row, 'inflightLoadBytes')).toBe(0)
    expect(this.attached.inFlight()).toMatchObject({ storeBytes: 0, loadBytes: 0 })
  }

  async stop(): Promise<void> {
    const { engine, stop } = this.setup
    engine.release(this.#resident)
    await engine.adapters.close()
    stop()
    clearInterval(this.#pump)
  }

  async #act(): Promise<void> {
    const { engine } = this.setup
    const chain = chainAt(this.#next(CHAINS))
    const lookup = await new Promise<Lookup>((resolve) => {
      engine.lookup(this.#space, chain, engine.sessions.nextOwner(), resolve)
    })
    // One whose time was up while the machine stood still was closed at once: it promises nothing.
    if (lookup.state === 'final') this.#check(lookup)
    const { hitChunks } = lookup
    engine.release(lookup)
    if (hitChunks < CHUNKS) storeChain(engine, this.setup.memory!, this.#space, chain)
    this.#checkResident()
    await new Promise<void>((resolve) => setImmediate(resolve))
  }

  /** Stores a chain that nobody has. */
  #storeAnew(): void {
    this.#fresh += 1
    const chain = chainOf(String.fromCharCode(0x100 + this.#fresh).repeat(2))
    storeChain(this.setup.engine, this.setup.memory!, this.#space, chain)
  }

  #check(lookup: Lookup): void {
    const { engine, memory, recorder } = this.setup
    this.l2Hits += lookup.hitL2
    if (lookup.loadedTo > 0) expect(holdsRightBytes(engine, memory!, lookup), 'promised bytes').toBe(true)
    recorder.drain(2 ** 16)
    checkLaws(engine)
  }

  /** What lies in L1 is promised in the call itself: no lookup of it waits for L2, whatever that does. */
  #checkResident(): void {
    const { engine } = this.setup
    const lookup = engine.lookup(this.#space, chainOf(RESIDENT), engine.sessions.nextOwner())
    expect(lookup).toMatchObject({ state: 'final', hitL1: RESIDENT.length })
    engine.release(lookup)
    engine.renew(this.#resident)
  }

  #stored(): number {
    const { cells } = this.setup
    let sum = 0
    for (let tenant = 0; tenant < cells.tenants.rows; tenant += 1) {
      sum += cells.l2Tenants.get(this.attached.row * cells.tenants.rows + tenant, 'storeCompletedObjects')
    }
    return sum
  }
}

/** Chain `number` of those that traffic chooses from. */
export function chainAt(number: number): HashChain {
  return chainOf(String.fromCharCode(97 + number).repeat(CHUNKS))
}

/** Every chain that traffic chooses from. */
export function drillChains(): HashChain[] {
  return Array.from({ length: CHAINS }, (_, number) => chainAt(number))
}
