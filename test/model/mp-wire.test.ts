import { expect, it } from 'vitest'
import type { MpClient } from '../../src/client/mp-client.ts'
import type { WireKey, WireSlot } from '../../src/protocol/mp/messages.ts'
import { checkLaws } from '../support/conservation-laws.ts'
import { KIB } from '../support/engine.ts'
import { CHUNK, contextOf, fill, found, holds, keyOf, type Mp, promptOf, startMp } from '../support/mp.ts'
import { random } from '../support/random.ts'

// Random tenants, prompts and ranks over a real socket, on an L1 far too small, with workers that are late, die, come
// back and write to slots they have no right to any more. Oracle: the bytes. Whatever a worker is told to retrieve
// holds what that tenant's rank wrote for that chunk, first byte to last, until it commits, however late that is.

const STEPS = 600
const SALTS = ['', 'a', 'b']
const PROMPTS = 4
const CHUNKS = 4
const WORLDS = [1, 2]

interface Store {
  readonly key: WireKey
  readonly slots: readonly WireSlot[]
  readonly chunks: readonly number[]
}

interface Retrieval {
  readonly key: WireKey
  readonly slots: readonly WireSlot[]
}

interface Worker {
  readonly id: bigint
  readonly worldSize: number
  readonly workerId: number
  readonly client: MpClient
  stores: Store[]
  retrievals: Retrieval[]
}

class Run {
  readonly #mp: Mp
  readonly #next: (limit: number) => number
  readonly #scheduler: MpClient
  readonly #workers: Worker[] = []
  #requests = 0
  readonly outcomes = { hits: 0, retrieved: 0, late: 0, stored: 0, refused: 0 }

  constructor(mp: Mp, next: (limit: number) => number) {
    this.#mp = mp
    this.#next = next
    this.#scheduler = mp.connect()
    for (const worldSize of WORLDS) {
      for (let workerId = 0; workerId < worldSize; workerId += 1) {
        const id = BigInt(worldSize * 10 + workerId)
        this.#workers.push({ id, worldSize, workerId, client: mp.connect(), stores: [], retrievals: [] })
      }
    }
  }

  async start(): Promise<void> {
    for (const worker of this.#workers) await this.#register(worker)
  }

  async step(): Promise<void> {
    const worker = this.#pick(this.#workers)
    const dice = this.#next(100)
    if (dice < 35) await this.#prepareStore(worker)
    else if (dice < 55) await this.#commitStore(worker)
    else if (dice < 80) await this.#ask(worker)
    else if (dice < 90) await this.#commitRetrieval(worker)
    else if (dice < 96) this.#mp.clock.advance(this.#next(600))
    else if (dice < 98) await this.#scheduler.endSession(`r${this.#next(this.#requests + 1)}`)
    else await this.#restart(worker)
  }

  #register({ client, id, worldSize }: Worker): Promise<unknown> {
    return client.register(contextOf(id, { model: 'm', worldSize }))
  }

  #key({ worldSize, workerId }: Worker): WireKey {
    this.#requests += 1
    const tokens = promptOf(this.#next(PROMPTS), 1 + this.#next(CHUNKS))
    return keyOf(tokens, { salt: this.#pick(SALTS), worldSize, workerId, requestId: `r${this.#requests}` })
  }

  async #prepareStore(worker: Worker): Promise<void> {
    const key = this.#key(worker)
    const { slots, chunkIndices } = await worker.client.prepareStore(key, worker.id)
    if (slots.length > 0) worker.stores.push({ key, slots, chunks: chunkIndices })
  }

  /** The bytes are written now, however late that is: the slots are still this worker's, or nobody's. */
  async #commitStore(worker: Worker): Promise<void> {
    const store = worker.stores.shift()
    if (store === undefined) return
    fill(this.#mp.memory, store.slots, store.chunks, nameOf(store.key))
    const isStored = await worker.client.commitStore(store.key, worker.id)
    this.outcomes[isStored ? 'stored' : 'refused'] += 1
  }

  async #ask(worker: Worker): Promise<void> {
    const key = this.#key(worker)
    const hits = await found(this.#scheduler, key)
    if (hits === 0) return
    this.outcomes.hits += 1
    const from = this.#next(hits)
    const part = { ...key, start: from * CHUNK, end: hits * CHUNK }
    for (const rank of this.#workers.filter(({ worldSize }) => worldSize === worker.worldSize)) {
      const own = { ...part, workerId: rank.workerId }
      const slots = await rank.client.prepareRetrieve(own, rank.id)
      if (slots !== null) rank.retrievals.push({ key: own, slots })
    }
    if (this.#next(4) === 0) await this.#scheduler.endSession(key.requestId)
    else if (from > 0) await this.#scheduler.freeLookupLocks({ ...key, workerId: null, end: from * CHUNK })
  }

  async #commitRetrieval(worker: Worker): Promise<void> {
    const retrieval = worker.retrievals.shift()
    if (retrieval === undefined) return
    const { key, slots } = retrieval
    const areRight = holds(this.#mp.memory, slots, key.start / CHUNK, nameOf(key))
    const isCommitted = await worker.client.commitRetrieve(key, worker.id)
    this.outcomes[isCommitted ? 'retrieved' : 'late'] += 1
    expect(areRight, JSON.stringify({ ...key, tokens: key.tokens[0] })).toBe(true)
  }

  /** A worker that goes in order has copied what it began; one that comes back may forget what it was doing. */
  async #restart(worker: Worker): Promise<void> {
    await worker.client.unregister(worker.id)
    worker.stores = []
    worker.retrievals = []
    await this.#register(worker)
  }

  #pick<Value>(values: readonly Value[]): Value {
    return values[this.#next(values.length)]!
  }
}

/** Tells tenant, prompt and rank from each other in `fill`. */
function nameOf({ salt, worldSize, workerId, tokens }: WireKey): number {
  return ((SALTS.indexOf(salt) * WORLDS.length + worldSize - 1) * 2 + workerId!) * PROMPTS + tokens[0]! / 100_000
}

it.each([1, 2, 3, 4])('every byte that may be retrieved is right, whoever is late (seed %i)', async (seed) => {
  const mp = await startMp({ seed, l1: { capacityBytes: 24 * KIB } })
  try {
    const run = new Run(mp, random(seed))
    await run.start()
    for (let step = 0; step < STEPS; step += 1) {
      await run.step()
      checkLaws(mp.engine)
    }
    for (const count of Object.values(run.outcomes)) expect(count, JSON.stringify(run.outcomes)).toBeGreaterThan(0)
    expect(mp.bugs).toEqual([])
    expect(mp.errors).toEqual([])
    mp.clock.advance(200_000)
    checkLaws(mp.engine)
  } finally {
    mp.close()
  }
})
