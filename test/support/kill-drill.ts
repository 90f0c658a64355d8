import { MpClient } from '../../src/client/mp-client.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { SegmentFile } from '../../src/native/segment-file.ts'
import type { WireContext, WireKey, WireSlot } from '../../src/protocol/mp/messages.ts'
import type { EngineProcess } from './engine-process.ts'
import { CHUNK, contextOf, keyOf, promptOf } from './mp.ts'
import { stampOf } from './stamp.ts'

type Next = (limit: number) => number

const PROMPTS = 16
const CHUNKS = 4
const SALTS = ['', 'a']
const OUTSTANDING_MAX = 6

/** Two models whose shards differ in length, so that extents change hands; one of them on two ranks. */
const MODELS: readonly Partial<WireContext>[] = [
  { model: 'one', worldSize: 1, hidden: 256 },
  { model: 'two', worldSize: 2, hidden: 96 },
]

interface Worker {
  readonly id: bigint
  readonly rank: number
  readonly context: WireContext
  readonly client: MpClient
  stores: Copy[]
  reads: Copy[]
}

/** Slots that a worker was told of, and has not said that it is done with. */
interface Copy {
  readonly key: WireKey
  readonly slots: readonly WireSlot[]
  /** Chunk of each slot. */
  readonly chunks: readonly number[]
}

/** The engine went away in the middle of something. */
export class EngineDied extends Error {}

/**
 * Workers that outlive their engine, again and again. They keep the slots that they were given, go on copying while no
 * engine runs, and say that they are done whenever they are. Oracle: the bytes. A chunk has one right content, told by
 * its name; whatever any engine gives out must hold it, and whatever a worker reads from must keep it until it is done.
 */
export class KillDrill {
  readonly #next: Next
  readonly #workers: Worker[] = []
  readonly #scheduler: MpClient
  #segment: SegmentFile | null = null
  #engine: EngineProcess | null = null
  #requests = 0
  readonly counts = {
    stored: 0,
    refusedCommits: 0,
    reads: 0,
    lateReads: 0,
    writtenWhileDown: 0,
    audits: 0,
    auditedChunks: 0,
    hitAfterRestart: 0,
    unanswered: 0,
  }

  constructor(address: string, next: Next) {
    this.#next = next
    const options = { clock: new SystemClock(), timeoutMs: 20_000 }
    this.#scheduler = new MpClient(address, options)
    for (const context of MODELS) {
      for (let rank = 0; rank < context.worldSize!; rank += 1) {
        const id = 2n ** 62n + BigInt(this.#workers.length)
        const client = new MpClient(address, options)
        this.#workers.push({ id, rank, context: contextOf(id, context), client, stores: [], reads: [] })
      }
    }
  }

  /** The first engine runs. */
  async start(engine: EngineProcess): Promise<void> {
    this.#engine = engine
    for (const { client, context } of this.#workers) {
      const { name } = await this.#ask(client.register(context))
      this.#segment ??= SegmentFile.open(name)
    }
  }

  /** Another engine runs; nobody registers again. */
  follow(engine: EngineProcess): void {
    this.#engine = engine
  }

  close(): void {
    this.#scheduler.close()
    for (const { client } of this.#workers) client.close()
    this.#segment?.close()
  }

  /** One thing that one of them does. @throws EngineDied */
  async step(): Promise<void> {
    const worker = this.#workers[this.#next(this.#workers.length)]!
    const dice = this.#next(100)
    if (dice < 40) await this.#prepareStore(worker)
    else if (dice < 62) await this.#commitStore(worker)
    else if (dice < 80) await this.#prepareRead(worker)
    else if (dice < 92) await this.#commitRead(worker)
    else if (dice < 95) this.#scribble()
    else if (dice < 97)
      await new Promise((resolve) => setTimeout(resolve, 50 + this.#next(150))) // leases expire
    else if (dice < 98) await this.#comeAnew(worker)
    else await this.#storeAll(worker)
  }

  /** No engine runs: those who were writing write on, some of them to the end. */
  whileDown(): void {
    for (let times = this.#next(8); times > 0; times -= 1) this.#scribble()
    this.#checkReads()
  }

  /** Asks for everything there could be, and compares every byte of what is there. @throws EngineDied */
  async audit(isFirstOfEngine: boolean): Promise<void> {
    this.counts.audits += 1
    this.#checkReads()
    for (const { context } of this.#workers.filter(({ rank }) => rank === 0)) {
      for (const salt of SALTS) {
        for (let prompt = 0; prompt < PROMPTS; prompt += 1) {
          const key = this.#key(context, salt, promptOf(prompt, CHUNKS))
          const hits = await this.#found(key)
          if (hits > 0 && isFirstOfEngine) this.counts.hitAfterRestart += 1
          if (hits > 0) await this.#readNow({ ...key, end: hits * CHUNK })
          await this.#ask(this.#scheduler.endSession(key.requestId))
        }
      }
    }
  }

  /** All ranks read what was found, at once. */
  async #readNow(key: WireKey): Promise<void> {
    for (const worker of this.#workers.filter(({ context }) => context.model === key.model)) {
      const own = { ...key, workerId: worker.rank }
      const slots = await this.#ask(worker.client.prepareRetrieve(own, worker.id))
      if (slots === null) continue // too much is quarantined, or the lease was too short for this machine
      const read = { key: own, slots, chunks: slots.map((_, chunk) => chunk) }
      this.#check(read)
      await this.#ask(worker.client.commitRetrieve(own, worker.id))
      this.counts.auditedChunks += slots.length
    }
  }

  async #prepareStore(worker: Worker): Promise<void> {
    if (worker.stores.length >= OUTSTANDING_MAX) return
    const { context, client, id, rank } = worker
    const tokens = promptOf(this.#next(PROMPTS), 1 + this.#next(CHUNKS))
    const key = { ...this.#key(context, SALTS[this.#next(SALTS.length)]!, tokens), workerId: rank }
    const { slots, chunkIndices } = await this.#ask(client.prepareStore(key, id))
    if (slots.length > 0) worker.stores.push({ key, slots, chunks: chunkIndices })
  }

  /** Writes all there is to write, however long ago it was asked for, and says so. */
  async #commitStore(worker: Worker): Promise<void> {
    const store = worker.stores.splice(this.#next(Math.max(1, worker.stores.length)), 1)[0]
    if (store === undefined) return
    this.#write(store, store.slots.length)
    const isStored = await this.#ask(worker.client.commitStore(store.key, worker.id))
    this.counts[isStored ? 'stored' : 'refusedCommits'] += 1
  }

  async #prepareRead(worker: Worker): Promise<void> {
    const { context } = worker
    const tokens = promptOf(this.#next(PROMPTS), CHUNKS)
    const key = this.#key(context, SALTS[this.#next(SALTS.length)]!, tokens)
    const hits = await this.#found(key)
    for (const reader of this.#workers.filter((one) => one.context.model === context.model)) {
      if (hits === 0 || reader.reads.length >= OUTSTANDING_MAX) continue
      const own = { ...key, workerId: reader.rank, end: hits * CHUNK }
      const slots = await this.#ask(reader.client.prepareRetrieve(own, reader.id))
      if (slots !== null) reader.reads.push({ key: own, slots, chunks: slots.map((_, chunk) => chunk) })
    }
    if (this.#next(3) === 0) await this.#ask(this.#scheduler.endSession(key.requestId))
  }

  async #commitRead(worker: Worker): Promise<void> {
    const read = worker.reads.splice(this.#next(Math.max(1, worker.reads.length)), 1)[0]
    if (read === undefined) return
    this.#check(read)
    const isInTime = await this.#ask(worker.client.commitRetrieve(read.key, worker.id))
    this.counts[isInTime ? 'reads' : 'lateReads'] += 1
  }

  /** Somebody who was given slots to write to writes to some of them, late or not, and says nothing. */
  #scribble(): void {
    const stores = this.#workers.flatMap((worker) => worker.stores)
    const store = stores[this.#next(Math.max(1, stores.length))]
    if (store === undefined) return
    this.#write(store, 1 + this.#next(store.slots.length))
    this.counts.writtenWhileDown += 1
  }

  /** A worker is started anew: it copies nothing, and does not know what the one before it was doing. */
  async #comeAnew(worker: Worker): Promise<void> {
    worker.stores = []
    worker.reads = []
    await this.#ask(worker.client.unregister(worker.id))
    await this.#ask(worker.client.register(worker.context))
  }

  /** All ranks store a whole prompt: pressure on L1. */
  async #storeAll({ context }: Worker): Promise<void> {
    const key = this.#key(context, SALTS[this.#next(SALTS.length)]!, promptOf(this.#next(PROMPTS), CHUNKS))
    for (const worker of this.#workers.filter((one) => one.context.model === context.model)) {
      const own = { ...key, workerId: worker.rank }
      const { slots, chunkIndices } = await this.#ask(worker.client.prepareStore(own, worker.id))
      if (slots.length === 0) continue
      this.#write({ key: own, slots, chunks: chunkIndices }, slots.length)
      if (await this.#ask(worker.client.commitStore(own, worker.id))) this.counts.stored += 1
    }
  }

  async #found(key: WireKey): Promise<number> {
    await this.#ask(this.#scheduler.lookup(key))
    return (await this.#ask(this.#scheduler.waitAnswer(key.requestId, 10))) ?? 0
  }

  #write({ key, slots, chunks }: Copy, count: number): void {
    for (const [row, { offset, length }] of slots.slice(0, count).entries()) {
      this.#segment!.write(offset, rightBytes(key, chunks[row]!, length))
    }
  }

  /** Whatever is being read is right, whether an engine runs or not. */
  #checkReads(): void {
    for (const { reads } of this.#workers) for (const read of reads) this.#check(read)
  }

  #check({ key, slots, chunks }: Copy): void {
    for (const [row, { offset, length }] of slots.entries()) {
      const bytes = this.#segment!.read(offset, length)
      if (Buffer.compare(bytes, rightBytes(key, chunks[row]!, length)) === 0) continue
      const { model, salt, workerId, requestId, tokens } = key
      const what = { model, salt, rank: workerId, requestId, prompt: tokens[0]! / 100_000, chunk: chunks[row], offset }
      throw new Error(`wrong bytes: ${JSON.stringify(what)}`)
    }
  }

  #key({ model, worldSize }: WireContext, salt: string, tokens: Uint32Array): WireKey {
    this.#requests += 1
    return keyOf(tokens, { model, worldSize, salt, workerId: null, requestId: `k${this.#requests}` })
  }

  /** An answer, unless the engine dies first. */
  async #ask<Value>(answer: Promise<Value>): Promise<Value> {
    const died = this.#engine!.ended.then(() => {
      throw new EngineDied('while it was asked')
    })
    answer.catch(() => {}) // it may come, or fail, long after somebody waits for it
    try {
      return await Promise.race([answer, died])
    } catch (error) {
      if (error instanceof EngineDied) this.counts.unanswered += 1
      throw error
    }
  }
}

const known = new Map<string, Uint8Array>()

/** What a shard of a chunk holds, told by its name. */
function rightBytes({ model, salt, workerId, tokens }: WireKey, chunk: number, length: number): Uint8Array {
  const name = `${model} ${salt} ${workerId} ${tokens[0]} ${chunk} ${length}`
  const found = known.get(name) ?? stampOf(name, length)
  known.set(name, found)
  return found
}
