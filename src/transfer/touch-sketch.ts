/** Cells a chunk at least, over which two chunks seldom share both of theirs. */
const CELLS_A_CHUNK = 8
const CELLS_MAX = 2 ** 24
const COUNT_MAX = 255

/**
 * How often chunks were asked for lately, resident or not, in bounded memory: two counting sketches of two rows each, one
 * being filled, the other the past. A count is never too low within the window; it is too high when two chunks share
 * both cells, some 1 in 50 when full.
 *
 *   touch -> current ---- `window` touches ----> past ---- as many again ----> forgotten
 */
export class TouchSketch {
  readonly #mask: number
  readonly #window: number
  #current: Uint8Array
  #past: Uint8Array
  #touches = 0

  /** @param chunks as many as should be told apart: those that the index of L1 can hold, ghosts included. */
  constructor(chunks: number) {
    const cells = Math.min(CELLS_MAX, 2 ** Math.ceil(Math.log2(Math.max(16, chunks * CELLS_A_CHUNK))))
    this.#mask = cells - 1
    this.#window = Math.max(16, Math.min(chunks, cells / CELLS_A_CHUNK)) * 4
    this.#current = new Uint8Array(cells)
    this.#past = new Uint8Array(cells)
  }

  get bytes(): number {
    return this.#current.byteLength + this.#past.byteLength
  }

  /** Counts one touch of the chunk whose hash is words[at..at+8), in a space. @returns touches with this one. */
  touch(space: number, words: Uint32Array, at: number): number {
    if (this.#touches === this.#window) this.#turn()
    this.#touches += 1
    const first = this.#cell(space, words[at]!, words[at + 1]!)
    const second = this.#cell(space, words[at + 2]!, words[at + 3]!)
    const current = this.#current
    const low = Math.min(current[first]!, current[second]!)
    // Only the lower cell grows: the other one belongs to somebody else as well.
    if (current[first] === low && low < COUNT_MAX) current[first] = low + 1
    if (second !== first && current[second] === low && low < COUNT_MAX) current[second] = low + 1
    return this.#at(first, second)
  }

  /** Touches of a chunk within the window. */
  count(space: number, words: Uint32Array, at: number): number {
    return this.#at(this.#cell(space, words[at]!, words[at + 1]!), this.#cell(space, words[at + 2]!, words[at + 3]!))
  }

  #at(first: number, second: number): number {
    const now = Math.min(this.#current[first]!, this.#current[second]!)
    return now + Math.min(this.#past[first]!, this.#past[second]!)
  }

  #turn(): void {
    const emptied = this.#past.fill(0)
    this.#past = this.#current
    this.#current = emptied
    this.#touches = 0
  }

  #cell(space: number, low: number, high: number): number {
    const mixed = Math.imul(low ^ (space << 7), 0x9e3779b1) ^ Math.imul(high ^ space, 0x85ebca6b)
    return (mixed ^ (mixed >>> 15)) & this.#mask
  }
}
