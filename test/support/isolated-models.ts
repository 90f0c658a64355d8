import { expect } from 'vitest'
import type { MpClient } from '../../src/client/mp-client.ts'
import type { WireKey, WireSlot } from '../../src/protocol/mp/messages.ts'
import { CHUNK, contextOf, found, keyOf, promptOf } from './mp.ts'

/** The memory of L1 as the workers of one model see it: offsets are those that the engine tells them. */
export interface WorkerMemory {
  read(offset: number, length: number): Uint8Array
  write(offset: number, bytes: Uint8Array): void
  /** All of it. */
  all(): Uint8Array
}

/** A worker of one rank that writes only bytes with its model's tag in their high half. */
export class TaggedWorker {
  readonly model: string
  readonly id: bigint
  readonly #tag: number
  readonly #client: MpClient
  #memory: WorkerMemory | undefined
  #requests = 0

  /** @param tag 1..15, of the model. */
  constructor(model: string, tag: number, id: bigint, client: MpClient) {
    this.model = model
    this.#tag = tag
    this.id = id
    this.#client = client
  }

  /** @param open maps what the engine names. */
  async register(open: (name: string, bytes: number) => WorkerMemory): Promise<{ name: string; bytes: number }> {
    await this.#client.chunkTokens()
    await this.#client.experimental() // of those who ask, a refusal is told
    const told = await this.#client.register(contextOf(this.id, { model: this.model }))
    this.#memory = open(told.name, told.bytes)
    return told
  }

  /** @returns chunks that were stored. */
  async store(prompt: number, chunks: number): Promise<number> {
    const key = this.#key(prompt, chunks)
    const { slots, chunkIndices } = await this.#client.prepareStore(key, this.id)
    for (const [row, chunk] of chunkIndices.entries()) {
      this.#memory!.write(slots[row]!.offset, this.#bytesOf(prompt, chunk, slots[row]!))
    }
    if (slots.length > 0) expect(await this.#client.commitStore(key, this.id)).toBe(true)
    await this.#client.endSession(key.requestId)
    return slots.length
  }

  /** Asks for a prompt and copies what there is of it: it must be what this model stored. @returns chunks found. */
  async retrieve(prompt: number, chunks: number): Promise<number> {
    const key = this.#key(prompt, chunks)
    const hits = await found(this.#client, key)
    const own = { ...key, end: hits * CHUNK }
    const slots = hits === 0 ? [] : await this.#client.prepareRetrieve(own, this.id)
    expect(slots, `${this.model}, prompt ${prompt}`).toHaveLength(hits)
    for (const [chunk, slot] of slots!.entries()) {
      const bytes = this.#memory!.read(slot.offset, slot.length)
      const isOwn = Buffer.compare(bytes, this.#bytesOf(prompt, chunk, slot)) === 0
      expect(isOwn, `${this.model}, prompt ${prompt}, chunk ${chunk}`).toBe(true)
    }
    if (hits > 0) expect(await this.#client.commitRetrieve(own, this.id)).toBe(true)
    await this.#client.endSession(key.requestId)
    return hits
  }

  /** Begins a store and leaves it open, with half of its bytes written. */
  async abandon(prompt: number, chunks: number): Promise<void> {
    const { slots, chunkIndices } = await this.#client.prepareStore(this.#key(prompt, chunks), this.id)
    for (const [row, slot] of slots.entries()) {
      const bytes = this.#bytesOf(prompt, chunkIndices[row]!, slot)
      this.#memory!.write(slot.offset, bytes.subarray(0, slot.length / 2))
    }
  }

  /** Reads everything that the worker can reach: it must be nobody else's. */
  checkAll(): void {
    const bytes = this.#memory!.all()
    const foreign = bytes.findIndex((byte) => byte !== 0 && byte >> 4 !== this.#tag)
    expect(foreign, `${this.model} sees a byte of another model`).toBe(-1)
  }

  #key(prompt: number, chunks: number): WireKey {
    this.#requests += 1
    return keyOf(promptOf(prompt, chunks), { model: this.model, requestId: `${this.id} ${this.#requests}` })
  }

  #bytesOf(prompt: number, chunk: number, { length }: WireSlot): Uint8Array {
    return taggedBytes(this.#tag, prompt, chunk, length)
  }
}

/** Bytes that tell a model by their high half; the low one tells prompt and chunk. */
export function taggedBytes(tag: number, prompt: number, chunk: number, length: number): Uint8Array {
  const seed = Math.imul(prompt * 64 + chunk + 1, 0x9e37_79b1)
  return Uint8Array.from({ length }, (_, at) => (tag << 4) | (Math.imul(seed ^ at, 0x85eb_ca6b) >>> 28))
}
