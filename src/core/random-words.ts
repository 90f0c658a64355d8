const POOL_WORDS = 1024

/** Random words of 32 bits out of a pool: the source is asked once for a thousand of them. */
export class RandomWords {
  readonly #fill: (pool: Uint32Array) => void
  readonly #pool = new Uint32Array(POOL_WORDS)
  #at = POOL_WORDS

  /** @param fill writes words that nobody can foresee over the whole array. */
  constructor(fill: (pool: Uint32Array) => void) {
    this.#fill = fill
  }

  /** Writes `count` words to `out` from `at` on. */
  take(out: Uint32Array, at: number, count: number): void {
    for (let word = 0; word < count; word += 1) {
      if (this.#at === POOL_WORDS) {
        this.#fill(this.#pool)
        this.#at = 0
      }
      out[at + word] = this.#pool[this.#at]!
      this.#at += 1
    }
  }
}
