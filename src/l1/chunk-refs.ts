/**
 * A reusable list of chunks by record number and generation. A reference holds nothing: the chunk may leave L1
 * at any time, and its record may serve another chunk. The generation tells, so a stale reference names nothing.
 * Queues keep these in place of leases (`L1Cache.leaseRefs` turns them into one when the work starts).
 * The arrays are longer than `count`; they grow, never shrink, and are replaced when they grow.
 */
export class ChunkRefs {
  count = 0
  id: Uint32Array
  generation: Uint32Array

  constructor(capacity = 64) {
    this.id = new Uint32Array(capacity)
    this.generation = new Uint32Array(capacity)
  }

  clear(): void {
    this.count = 0
  }

  push(id: number, generation: number): void {
    const at = this.count
    if (at === this.id.length) this.#grow()
    this.id[at] = id
    this.generation[at] = generation
    this.count = at + 1
  }

  #grow(): void {
    const capacity = Math.max(64, this.id.length * 2)
    const id = new Uint32Array(capacity)
    const generation = new Uint32Array(capacity)
    id.set(this.id)
    generation.set(this.generation)
    this.id = id
    this.generation = generation
  }
}
