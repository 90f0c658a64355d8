import { MpClient } from '../../src/client/mp-client.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { SegmentFile } from '../../src/native/segment-file.ts'
import { CHUNK, contextOf, found, keyOf, promptOf } from './mp.ts'
import { stampOf } from './stamp.ts'

const WORKER = 2n ** 62n + 11n
const CHUNKS = 4
const MODEL = 'good'

/** A worker and its scheduler that do everything right, and expect the same of the engine. */
export class GoodClient {
  readonly #client: MpClient
  readonly #leaseMs: number
  #segment: SegmentFile | null = null
  #prompts = 0
  readonly counts = { cycles: 0, stored: 0, notTaken: 0, late: 0, evicted: 0, slowestMs: 0 }

  /** @param leaseMs life of a lease. On a busy machine, a store may come too late. */
  constructor(address: string, leaseMs: number) {
    this.#leaseMs = leaseMs
    this.#client = new MpClient(address, { clock: new SystemClock(), timeoutMs: 10_000 })
  }

  async start(): Promise<void> {
    await this.#client.chunkTokens()
    const { name } = await this.#client.register(contextOf(WORKER, { model: MODEL }))
    this.#segment = SegmentFile.open(name)
  }

  /** Stores a new prompt, finds it, reads it back. Throws when anything but room for it is missing. */
  async cycle(): Promise<void> {
    const startMs = performance.now()
    this.#prompts += 1
    const tokens = promptOf(this.#prompts % 40_000, CHUNKS)
    const key = keyOf(tokens, { model: MODEL, requestId: `good ${this.#prompts}`, salt: `s${this.#prompts % 3}` })
    const stamps = Array.from({ length: CHUNKS }, (_, chunk) => `${this.#prompts} ${chunk}`)
    const { slots, chunkIndices } = await this.#client.prepareStore(key, WORKER)
    for (const [row, { offset, length }] of slots.entries()) {
      this.#segment!.write(offset, stampOf(stamps[chunkIndices[row]!]!, length))
    }
    const isStored = slots.length > 0 && (await this.#client.commitStore(key, WORKER))
    if (slots.length === 0) this.counts.notTaken += 1
    else if (isStored) this.counts.stored += 1
    else if (performance.now() - startMs > this.#leaseMs / 2) this.counts.late += 1
    else throw new Error('a store in time was refused')
    const hits = await found(this.#client, key)
    if (hits !== (isStored ? slots.length : 0)) this.counts.evicted += 1
    if (hits > 0) await this.#read({ ...key, end: hits * CHUNK }, stamps)
    await this.#client.endSession(key.requestId)
    if (!(await this.#client.ping(WORKER))) throw new Error('the engine forgot a worker that it hears all the time')
    this.counts.cycles += 1
    this.counts.slowestMs = Math.max(this.counts.slowestMs, performance.now() - startMs)
  }

  close(): void {
    this.#client.close()
    this.#segment?.close()
  }

  async #read(key: ReturnType<typeof keyOf>, stamps: readonly string[]): Promise<void> {
    const slots = await this.#client.prepareRetrieve(key, WORKER)
    if (slots === null) {
      this.counts.notTaken += 1 // others hold too much
      return
    }
    const areRight = slots.every(({ offset, length }, chunk) => {
      return Buffer.compare(this.#segment!.read(offset, length), stampOf(stamps[chunk]!, length)) === 0
    })
    if ((await this.#client.commitRetrieve(key, WORKER)) && !areRight) throw new Error('wrong bytes were given out')
  }
}
