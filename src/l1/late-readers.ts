/** Chunks that leases which expired still keep, because they are being copied from; counted by lease. */
export class LateReaders {
  readonly #leases = new Map<number, number>()

  /** One more lease keeps chunks ids[0, count). @returns how many of them no other such lease keeps. */
  add(ids: Uint32Array, count: number): number {
    let chunks = 0
    for (let at = 0; at < count; at += 1) {
      const leases = this.#leases.get(ids[at]!) ?? 0
      if (leases === 0) chunks += 1
      this.#leases.set(ids[at]!, leases + 1)
    }
    return chunks
  }

  /** That lease is over. @returns how many of its chunks no such lease keeps any more. */
  remove(ids: Uint32Array, count: number): number {
    let chunks = 0
    for (let at = 0; at < count; at += 1) {
      const left = this.#leases.get(ids[at]!)! - 1
      if (left > 0) this.#leases.set(ids[at]!, left)
      else if (this.#leases.delete(ids[at]!)) chunks += 1
    }
    return chunks
  }
}
