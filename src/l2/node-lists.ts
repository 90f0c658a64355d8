import { enlarge } from './columns.ts'

const NO_NODE = 0

/**
 * Doubly linked lists over the nodes of an object index, from oldest to newest. Lists are numbers of 0 upwards, nodes
 * of 1 upwards; a node is on one list at most. Every method is O(1).
 */
export class NodeLists {
  /** Pairs (newer, older) by node. */
  #links = new Uint32Array(0)
  /** Pairs (oldest, newest) by list. */
  #ends = new Uint32Array(32)

  /** Makes room for nodes below `nodes`. */
  grow(nodes: number): void {
    this.#links = enlarge(this.#links, 2 * nodes)
  }

  /** The oldest node of a list, or 0. */
  oldest(list: number): number {
    return this.#ends[2 * list] ?? NO_NODE
  }

  /** The next newer node of the same list, or 0. */
  newerThan(node: number): number {
    return this.#links[2 * node]!
  }

  linkNewest(node: number, list: number): void {
    if (2 * list >= this.#ends.length) this.#ends = enlarge(this.#ends, 4 * list)
    const newest = this.#ends[2 * list + 1]!
    this.#links[2 * node] = NO_NODE
    this.#links[2 * node + 1] = newest
    if (newest === NO_NODE) this.#ends[2 * list] = node
    else this.#links[2 * newest] = node
    this.#ends[2 * list + 1] = node
  }

  /** @param list that the node is on. */
  unlink(node: number, list: number): void {
    const newer = this.#links[2 * node]!
    const older = this.#links[2 * node + 1]!
    if (older === NO_NODE) this.#ends[2 * list] = newer
    else this.#links[2 * older] = newer
    if (newer === NO_NODE) this.#ends[2 * list + 1] = older
    else this.#links[2 * newer + 1] = older
  }
}
