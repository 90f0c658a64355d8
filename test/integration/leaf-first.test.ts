import { expect, it } from 'vitest'
import type { HashChain } from '../../src/core/hash-chain.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../../src/core/ids.ts'
import type { Lookup } from '../../src/engine/lookup.ts'
import { L1_POLICIES, type L1PolicyName } from '../../src/l1/options.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { ADAPTER_LIMITS_DEFAULT } from '../../src/l2/options.ts'
import { checkLaws } from '../support/conservation-laws.ts'
import { KIB, makeEngine, settle } from '../support/engine.ts'
import { FaultAdapter } from '../support/fault-adapter.ts'
import { chainOf } from '../support/l1.ts'
import { random } from '../support/random.ts'

const STEPS = 1_000
const TURNS_MAX = 6
const SPACES = [
  { model: 'one', salt: '', ranks: 1, shardBytes: KIB },
  { model: 'one', salt: 'tenant', ranks: 1, shardBytes: KIB },
  { model: 'two', salt: 'tenant', ranks: 2, shardBytes: 768 },
  { model: 'four', salt: '', ranks: 4, shardBytes: 512 },
]

/** A conversation: its prompt grows turn by turn. Conversations of one space begin alike. */
interface Chat {
  readonly space: SpaceId
  readonly ranks: number
  path: number[]
  chain: HashChain
}

interface Write {
  readonly space: SpaceId
  readonly rank: number
  readonly lease: LeaseId
}

/** Inference servers that store what they compute bit by bit, over an L1 that is far too small and an L2 that is not. */
class Servers {
  readonly setup
  readonly next: (limit: number) => number
  readonly chats: Chat[] = []
  readonly lookups: Lookup[] = []
  readonly writes: Write[] = []
  readonly #adapter: FaultAdapter
  #turn = 0

  constructor(seed: number, policy: L1PolicyName) {
    this.next = random(seed)
    this.setup = makeEngine({ seed, l1: { capacityBytes: 48 * KIB, extentBytes: 4 * KIB, policy } })
    this.#adapter = new FaultAdapter(this.setup.clock)
    this.#adapter.nextFault = () => (this.next(8) === 0 ? (['some_fail', 'slow'] as const)[this.next(2)]! : 'none')
  }

  async start(): Promise<void> {
    const { engine, start } = this.setup
    await engine.adapters.add('memory', this.#adapter, ADAPTER_LIMITS_DEFAULT)
    for (const spec of SPACES) {
      const space = engine.openSpace({ ...spec, layout: 'plain' })
      for (let chat = 0; chat < 4; chat += 1) this.chats.push(this.#begin(space, spec.ranks))
    }
    start()
  }

  async step(): Promise<void> {
    const { clock, engine } = this.setup
    const chat = this.chats[this.next(this.chats.length)]!
    const act = this.next(12)
    if (act < 3) this.#ask(chat, chat.chain.count)
    else if (act < 4)
      this.#ask(chat, 1 + this.next(chat.chain.count)) // touches a head, not its tail
    else if (act < 6) this.#retrieve()
    else if (act < 8) this.#reserve(chat)
    else if (act < 10) this.#commit()
    else if (act < 11) this.#grow(chat)
    else if (this.lookups.length > 0) engine.release(this.lookups.splice(this.next(this.lookups.length), 1)[0]!)
    clock.advance(this.next(30))
    if (this.next(100) === 0) clock.advance(1_500) // leases expire
    await settle(clock, 1)
    this.setup.recorder.drain(2 ** 16)
  }

  /** Seen from outside: a shard that can be read has one above it that can. @returns readable shards. */
  checkParents(): number {
    const { queries } = this.setup.engine.l1
    let readable = 0
    for (const { space, ranks, chain } of this.chats) {
      for (let rank = 0; rank < ranks; rank += 1) {
        let isAboveReadable = true
        for (let index = 0; index < chain.count; index += 1) {
          const isReadable = queries.isReadable(space, rank, chain, index)
          expect(isReadable && !isAboveReadable, `chunk ${index} without its parent, rank ${rank}`).toBe(false)
          isAboveReadable = isReadable
          readable += isReadable ? 1 : 0
        }
      }
    }
    return readable
  }

  #begin(space: SpaceId, ranks: number): Chat {
    const path = [1, 2, this.next(3), ++this.#turn + 100]
    return { space, ranks, path, chain: chainOf(path) }
  }

  #grow(chat: Chat): void {
    if (chat.path.length > 4 + 3 * TURNS_MAX) chat.path = chat.path.slice(0, 3)
    const turn = Array.from({ length: 1 + this.next(3) }, () => ++this.#turn + 100)
    chat.path = [...chat.path, ...turn]
    chat.chain = chainOf(chat.path)
  }

  #ask(chat: Chat, chunks: number): Lookup {
    const { engine } = this.setup
    const lookup = engine.lookup(chat.space, chainOf(chat.path.slice(0, chunks)), engine.sessions.nextOwner())
    this.lookups.push(lookup)
    if (this.lookups.length > 12) engine.release(this.lookups.shift()!)
    return lookup
  }

  /** A part of what was promised. */
  #retrieve(): void {
    const { engine } = this.setup
    const promised = this.lookups.filter(({ state, loadedTo }) => state === 'final' && loadedTo > 0)
    if (promised.length === 0) return
    const lookup = promised[this.next(promised.length)]!
    const from = this.next(lookup.loadedTo)
    const to = from + 1 + this.next(lookup.loadedTo - from)
    if (engine.slots(lookup, -1, from, to, new SlotList())) engine.served(lookup, from, to)
  }

  /** A part of the prompt, often of one rank only; the others come later, or never. */
  #reserve(chat: Chat): void {
    const only = this.next(chat.ranks)
    const isEvery = this.next(2) === 0
    const to = 1 + this.next(chat.chain.count)
    for (let rank = 0; rank < chat.ranks; rank += 1) if (isEvery || rank === only) this.#reserveRank(chat, rank, to)
  }

  #reserveRank(chat: Chat, rank: number, to: number): void {
    const { engine } = this.setup
    const { space, chain } = chat
    let from = 0
    while (from < to && engine.l1.queries.isReadable(space, rank, chain, from)) from += 1
    if (this.next(6) === 0) from = this.next(to)
    const lease = engine.reserve(space, rank, chain, from, to, engine.sessions.nextOwner(), new SlotList())
    if (lease !== NO_LEASE) this.writes.push({ space, rank, lease })
  }

  #commit(): void {
    const write = this.writes.splice(this.next(Math.max(1, this.writes.length)), 1)[0]
    if (write === undefined) return
    const { engine } = this.setup
    if (this.next(12) === 0) engine.l1.abort(write.lease)
    else if (engine.commit(write.space, write.rank, write.lease) < 0) engine.l1.fence(write.lease)
  }
}

const cases = L1_POLICIES.flatMap((policy) => [1, 2].map((seed) => ({ policy, seed })))

it.each(cases)(
  'no chunk is in L1 without its parent, whatever servers and L2 do ($policy, seed $seed)',
  async ({ policy, seed }) => {
    const servers = new Servers(seed, policy)
    const { engine, cells, errors } = servers.setup
    await servers.start()
    let readable = 0
    for (let step = 0; step < STEPS; step += 1) {
      await servers.step()
      checkLaws(engine)
      readable += servers.checkParents()
    }
    expect(readable).toBeGreaterThan(STEPS)
    for (let space = 0; space < SPACES.length; space += 1) {
      const { tenant, model, salt } = engine.l1.spaces.spec(space as SpaceId)
      const name = `${model} ${salt}`
      expect(cells.l1Tenants.get(tenant, 'evictedShards'), `evicted of ${name}`).toBeGreaterThan(20)
      expect(cells.l1Tenants.get(tenant, 'readShards'), `served of ${name}`).toBeGreaterThan(0)
    }
    expect(cells.l2Tenants.sum('loadCompletedObjects')).toBeGreaterThan(50)
    expect(errors.filter(({ error }) => (error as Error).name === 'AssertionError')).toEqual([])
  },
)
