const GENERATION_MASK = 0xffff
const HANDED_SHIFT = 8
const COUNT_MASK = 0xff

/**
 * How far the shards of each chunk in L1 are on their way to one adapter: 4 bytes a chunk, by its record number.
 *
 *   generation (16 bits) | ranks that were handed over, queued or in flight included (8) | ranks that it has (8)
 *
 * A chunk that left L1 has another generation, so its marks vanish by themselves.
 */
export class ShardMarks {
  #words: Uint32Array

  constructor(ids: number) {
    this.#words = new Uint32Array(ids)
  }

  get bytes(): number {
    return this.#words.byteLength
  }

  /** Ranks of the chunk that are queued, in flight or stored. */
  handed(id: number, generation: number): number {
    return (this.#of(id, generation) >>> HANDED_SHIFT) & COUNT_MASK
  }

  /** Ranks of the chunk that the adapter has. */
  stored(id: number, generation: number): number {
    return this.#of(id, generation) & COUNT_MASK
  }

  noteHanded(id: number, generation: number, ranks: number): void {
    const stored = this.stored(id, generation)
    const handed = Math.min(COUNT_MASK, this.handed(id, generation) + ranks)
    this.#set(id, generation, handed, stored)
  }

  noteStored(id: number, generation: number): void {
    const stored = Math.min(COUNT_MASK, this.stored(id, generation) + 1)
    this.#set(id, generation, Math.max(stored, this.handed(id, generation)), stored)
  }

  /** What is under way did not arrive: the chunk is to be handed over again, whole. */
  forget(id: number, generation: number): void {
    this.#set(id, generation, 0, 0)
  }

  #of(id: number, generation: number): number {
    const word = this.#words[id] ?? 0
    return word >>> 16 === (generation & GENERATION_MASK) ? word : 0
  }

  #set(id: number, generation: number, handed: number, stored: number): void {
    if (id >= this.#words.length) {
      const longer = new Uint32Array(Math.max(2 * this.#words.length, id + 1))
      longer.set(this.#words)
      this.#words = longer
    }
    this.#words[id] = (((generation & GENERATION_MASK) << 16) | (handed << HANDED_SHIFT) | stored) >>> 0
  }
}
