import { enlarge } from './columns.ts'

const NO_NODE = 0

/**
 * The recency list of an object index again, cut by salt, and the bytes of each salt. Salts are rows of 0 upwards,
 * nodes numbers of 1 upwards; each node is on the list of one row at most.
 */
export class SaltLists {
  /** Pairs (newer, older) by node. */
  #links = new Uint32Array(0)
  /** Pairs (oldest, newest) by row. */
  #ends = new Uint32Array(32)
  #bytes = new Float64Array(16)

  /** Makes room for nodes below `nodes`. */
  grow(nodes: number): void {
    this.#links = enlarge(this.#links, 2 * nodes)
  }

  /** Rows with room for their numbers. */
  get rows(): number {
    return this.#bytes.length
  }

  bytesOf(row: number): number {
    return this.#bytes[row] ?? 0
  }

  /** Call it for a row before any of its nodes is linked. */
  addBytes(row: number, amount: number): void {
    if (row >= this.#bytes.length) {
      this.#bytes = enlarge(this.#bytes, 2 * row)
      this.#ends = enlarge(this.#ends, 4 * row)
    }
    this.#bytes[row]! += amount
  }

  /** The oldest node of a row, or 0. */
  oldest(row: number): number {
    return this.#ends[2 * row] ?? NO_NODE
  }

  /** The next newer node of the same row, or 0. */
  newerThan(node: number): number {
    return this.#links[2 * node]!
  }

  linkNewest(node: number, row: number): void {
    const newest = this.#ends[2 * row + 1]!
    this.#links[2 * node] = NO_NODE
    this.#links[2 * node + 1] = newest
    if (newest === NO_NODE) this.#ends[2 * row] = node
    else this.#links[2 * newest] = node
    this.#ends[2 * row + 1] = node
  }

  unlink(node: number, row: number): void {
    const newer = this.#links[2 * node]!
    const older = this.#links[2 * node + 1]!
    if (older === NO_NODE) this.#ends[2 * row] = newer
    else this.#links[2 * older] = newer
    if (newer === NO_NODE) this.#ends[2 * row + 1] = older
    else this.#links[2 * newer + 1] = older
  }
}
