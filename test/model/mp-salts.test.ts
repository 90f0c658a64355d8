import { expect, it } from 'vitest'
import type { MpClient } from '../../src/client/mp-client.ts'
import { GENERATIONS, idOf } from '../../src/protocol/mp/generations.ts'
import type { WireKey } from '../../src/protocol/mp/messages.ts'
import { checkLaws } from '../support/conservation-laws.ts'
import { KIB } from '../support/engine.ts'
import { CHUNK, contextOf, found, keyOf, type Mp, promptOf, startMp } from '../support/mp.ts'
import { random } from '../support/random.ts'
import { isStamped, stamp } from '../support/stamp.ts'

// Many tenants ask for the same few prompts over real sockets, with clients of every generation, while some of them
// forge what they can: tokens, request ids, the ends of other clients' requests. Oracle: which chunks were stored for
// (model, world size, salt), by rank. L1 has room for everything, so each answer must be exactly the oracle's, and each
// byte that may be retrieved must be what that very tenant stored.

const STEPS = 250
const PROMPTS = 3
const CHUNKS = 4
const LONG = 'x'.repeat(127)
const SALTS = [
  '',
  'a',
  'ab',
  'abc',
  'b',
  ' a',
  'a ',
  'A',
  '0',
  '1:r1',
  'null',
  '__other__',
  'é',
  'e\u0301',
  '😀',
  '😀😀',
].concat([`${LONG}x`, `${LONG}y`, LONG])
const MODELS = ['m', 'ma', 'm:', 'é']
const WORLDS = [1, 2]

interface Tenant {
  readonly model: string
  readonly worldSize: number
  readonly salt: string
  /** Chunks stored by each rank, by `pathOf`. */
  readonly stored: readonly Set<string>[]
}

interface Worker {
  readonly id: bigint
  readonly client: MpClient
}

/** Names a chunk by the tokens of its whole prefix. */
const pathOf = (tokens: Uint32Array, chunk: number) => tokens.subarray(0, (chunk + 1) * CHUNK).join()
const textOf = ({ model, worldSize, salt }: Tenant, tokens: Uint32Array, chunk: number, rank: number) =>
  JSON.stringify([model, worldSize, salt, pathOf(tokens, chunk), rank])

class Run {
  readonly #mp: Mp
  readonly #next: (limit: number) => number
  readonly #schedulers: MpClient[]
  readonly #workers = new Map<string, Worker>()
  readonly tenants: Tenant[] = []
  #requests = 0
  readonly outcomes = { stored: 0, hits: 0, misses: 0, retrieved: 0, forged: 0 }

  constructor(mp: Mp, next: (limit: number) => number) {
    this.#mp = mp
    this.#next = next
    this.#schedulers = this.#generations().map((options) => mp.connect(options))
    for (const model of MODELS) {
      for (const worldSize of WORLDS) {
        for (const salt of SALTS) {
          const stored = Array.from({ length: worldSize }, () => new Set<string>())
          this.tenants.push({ model, worldSize, salt, stored })
        }
      }
    }
  }

  async start(): Promise<void> {
    for (const scheduler of this.#schedulers) await scheduler.chunkTokens()
    const kinds = this.#generations()
    for (const model of MODELS) {
      for (const worldSize of WORLDS) {
        for (let rank = 0; rank < worldSize; rank += 1) {
          const id = BigInt(1000 + this.#workers.size)
          const client = this.#mp.connect(kinds[this.#workers.size % kinds.length]!)
          await client.chunkTokens()
          await client.register(contextOf(id, { model, worldSize }))
          this.#workers.set(`${model} ${worldSize} ${rank}`, { id, client })
        }
      }
    }
  }

  /** A few tenants at the same time, or somebody who forges. */
  async step(): Promise<void> {
    if (this.#next(3) === 0) return this.#forge()
    const some = new Set([this.#tenant(), this.#tenant(), this.#tenant()])
    await Promise.all([...some].map((tenant) => (this.#next(2) === 0 ? this.#store(tenant) : this.#ask(tenant))))
  }

  /** What a tenant finds of a prompt must be the leading run that all its ranks stored, and its own bytes. */
  async #ask(tenant: Tenant, tokens = this.#prompt()): Promise<void> {
    const key = this.#key(tenant, tokens)
    const scheduler = this.#scheduler()
    const hits = await found(scheduler, key)
    expect(hits, this.#what(key)).toBe(this.#expected(tenant, tokens))
    this.outcomes[hits === 0 ? 'misses' : 'hits'] += 1
    if (hits > 0) await this.#retrieve(tenant, { ...key, end: hits * CHUNK })
    await scheduler.endSession(key.requestId)
  }

  async #retrieve(tenant: Tenant, key: WireKey): Promise<void> {
    for (let rank = 0; rank < tenant.worldSize; rank += 1) {
      const { id, client } = this.#worker(tenant, rank)
      const own = { ...key, workerId: rank }
      const slots = await client.prepareRetrieve(own, id)
      expect(slots, this.#what(key)).toHaveLength(key.end / CHUNK)
      for (const [chunk, slot] of slots!.entries()) {
        expect(isStamped(this.#mp.memory, slot, textOf(tenant, key.tokens, chunk, rank)), this.#what(key)).toBe(true)
      }
      expect(await client.commitRetrieve(own, id)).toBe(true)
      this.outcomes.retrieved += 1
    }
  }

  /** Most ranks store a prompt. @param skipped one of so many ranks does not; 0 = all do. */
  async #store(tenant: Tenant, tokens = this.#prompt(), skipped = 4): Promise<void> {
    for (let rank = 0; rank < tenant.worldSize; rank += 1) {
      if (skipped > 0 && this.#next(skipped) === 0) continue
      const { id, client } = this.#worker(tenant, rank)
      const key = { ...this.#key(tenant, tokens), workerId: rank }
      const { slots, chunkIndices } = await client.prepareStore(key, id)
      for (const [row, chunk] of chunkIndices.entries()) {
        stamp(this.#mp.memory, slots[row]!, textOf(tenant, tokens, chunk, rank))
      }
      if (slots.length > 0) expect(await client.commitStore(key, id)).toBe(true)
      for (let chunk = 0; chunk < key.end / CHUNK; chunk += 1) tenant.stored[rank]!.add(pathOf(tokens, chunk))
      this.outcomes.stored += 1
    }
  }

  /** Somebody of another salt uses what he knows of a victim's request: its id, its tokens, its keys. */
  async #forge(): Promise<void> {
    const victim = this.#tenant()
    const thief = this.tenants.find(
      (one) => one.model === victim.model && one.worldSize === victim.worldSize && one.salt !== victim.salt,
    )!
    const tokens = this.#prompt()
    const key = this.#key(victim, tokens)
    const [scheduler, other] = [this.#schedulers[0]!, this.#schedulers[1 + this.#next(this.#schedulers.length - 1)]!]
    const hits = await found(scheduler, key)
    expect(hits, this.#what(key)).toBe(this.#expected(victim, tokens))
    await this.#stealAnswer(other, thief, key)
    await this.#stealSlots(other, thief, key)
    await this.#stealCommit(thief, victim)
    if (hits > 0) await this.#retrieve(victim, { ...key, end: hits * CHUNK }) // whatever was tried meanwhile
    await scheduler.endSession(key.requestId)
    this.outcomes.forged += 1
  }

  /** The id of a request is no key to its answer, and its end is its own client's to say. */
  async #stealAnswer(other: MpClient, thief: Tenant, key: WireKey): Promise<void> {
    expect(await other.answer(key.requestId)).toBe(0)
    await other.endSession(key.requestId)
    const stolen = { ...key, salt: thief.salt }
    expect(await found(other, stolen), this.#what(stolen)).toBe(this.#expected(thief, key.tokens))
    await other.freeLookupLocks({ ...stolen, workerId: null })
    await other.endSession(key.requestId)
  }

  /** A session of one's own for a prompt of one's own gives no right to the slots of another prompt or salt. */
  async #stealSlots(other: MpClient, thief: Tenant, key: WireKey): Promise<void> {
    const { id, client } = this.#worker(thief, 0)
    const own = promptOf(50 + this.tenants.indexOf(thief), CHUNKS)
    await this.#store(thief, own, 0)
    const mine = this.#key(thief, own, 'mine')
    expect(await found(other, mine)).toBe(CHUNKS)
    const { tokens, end, requestId } = key
    const halves = new Uint32Array([...own.subarray(0, CHUNK), ...tokens.subarray(CHUNK)])
    const tries = [
      { ...mine, tokens, end, workerId: 0 },
      { ...mine, tokens: halves, end, start: Math.min(CHUNK, end - CHUNK), workerId: 0 },
      { ...mine, tokens, end, requestId, workerId: 0 },
      { ...mine, requestId, workerId: 0 },
    ]
    for (const [row, forged] of tries.entries()) {
      const isOwn = row === 1 && end <= CHUNK // nothing of it is forged
      if (!isOwn) expect(await client.prepareRetrieve(forged, id), this.#what(forged)).toBeNull()
    }
    await this.#retrieve(thief, mine)
    await other.endSession(mine.requestId)
  }

  /** Slots that were reserved for one salt cannot be committed into another. */
  async #stealCommit(thief: Tenant, victim: Tenant): Promise<void> {
    const { id, client } = this.#worker(thief, 0)
    const tokens = promptOf(100 + this.#next(1000), 2)
    const key = { ...this.#key(thief, tokens), workerId: 0 }
    const { slots } = await client.prepareStore(key, id)
    for (const slot of slots) stamp(this.#mp.memory, slot, 'forged')
    expect(await client.commitStore({ ...key, salt: victim.salt }, id)).toBe(false)
    expect(await client.commitStore({ ...key, requestId: 'another' }, id)).toBe(false)
    expect(await found(this.#scheduler(), this.#key(victim, tokens))).toBe(this.#expected(victim, tokens))
    await client.unregister(id) // nothing of it is kept
    await client.register(contextOf(id, { model: thief.model, worldSize: thief.worldSize }))
  }

  #expected(tenant: Tenant, tokens: Uint32Array): number {
    const chunks = tokens.length / CHUNK
    for (let chunk = 0; chunk < chunks; chunk += 1) {
      if (!tenant.stored.every((stored) => stored.has(pathOf(tokens, chunk)))) return chunk
    }
    return chunks
  }

  #key({ model, worldSize, salt }: Tenant, tokens: Uint32Array, name = 'r'): WireKey {
    this.#requests += 1
    // Ids that look like parts of other keys, and the same ids under several salts.
    const requestId = this.#next(2) === 0 ? `${name}${this.#requests}` : `${this.#next(4)}:${name}${this.#requests}`
    return keyOf(tokens, { model, salt, worldSize, requestId })
  }

  /** A prefix of one of a few prompts: tenants share tokens all the time. */
  #prompt(): Uint32Array {
    return promptOf(this.#next(PROMPTS), 1 + this.#next(CHUNKS))
  }

  /** Few at a time, so that tenants meet again. */
  #tenant(): Tenant {
    return this.tenants[this.#next(2) === 0 ? this.#next(this.tenants.length) : this.#next(SALTS.length)]!
  }

  #scheduler(): MpClient {
    return this.#schedulers[this.#next(this.#schedulers.length)]!
  }

  #worker({ model, worldSize }: Tenant, rank: number): Worker {
    return this.#workers.get(`${model} ${worldSize} ${rank}`)!
  }

  #generations() {
    const old = GENERATIONS.filter((generation) => idOf(generation, 'prepare_store') !== undefined)
    return [...old.map((generation) => ({ generation })), { tokenForm: 'token_bytes' as const }]
  }

  #what({ model, worldSize, salt, tokens, end, requestId }: WireKey): string {
    return JSON.stringify({ model, worldSize, salt, prompt: tokens[0]! / 100_000, chunks: end / CHUNK, requestId })
  }
}

it.each([1, 2, 3, 4])(
  'no salt or model ever sees the chunks of another, whatever is forged (seed %i)',
  async (seed) => {
    const big = { indexCapacityChunks: 16_384, indexCapacityShards: 16_384, leaseCapacity: 1024 }
    const mp = await startMp({ seed, l1: { capacityBytes: 8192 * KIB, ...big } })
    try {
      const run = new Run(mp, random(seed))
      await run.start()
      for (let step = 0; step < STEPS; step += 1) await run.step()
      checkLaws(mp.engine)
      for (const count of Object.values(run.outcomes))
        expect(count, JSON.stringify(run.outcomes)).toBeGreaterThan(STEPS / 5)
      expect(mp.cells.l1Tenants.sum('evictedShards')).toBe(0)
      expect(mp.bugs).toEqual([])
      expect(mp.errors).toEqual([])
    } finally {
      mp.close()
    }
  },
)
