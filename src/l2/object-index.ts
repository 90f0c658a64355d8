import { assert } from '../core/assert.ts'
import { enlarge, RowSums } from './columns.ts'
import { followsNeighbour } from './key-words.ts'
import { NodeKeys } from './node-keys.ts'
import { NodeLists } from './node-lists.ts'

/** Returned instead of a node when there is none. */
export const NO_NODE = 0

const FREE = 0
const NAMED = 1
const PENDING = 2
const HELD = 3
const LEAVING = 4

/** The one list of `#recency`. */
const ALL = 0

/** Which salt a space belongs to, as a row of 0 upwards. */
export interface SaltRows {
  saltRowOf(space: number): number
}

/**
 * Which objects an adapter holds: (space, hash) -> bytes, recency, parent, children. One typed-array column a fact,
 * about 70 bytes an object; grows by doubling. Shared by the adapters that evict for themselves.
 *
 *           child begins        begin          publish         leave          gone
 *   (none) -------------> NAMED -----> PENDING -------> HELD -------> LEAVING -----> (none)
 *      |                    ^  begin ^    | cancel        ^   stay      |              or NAMED, if a
 *      +--------------------|--------+    v               +-------------+              child is left
 *                           +---------- (none) or NAMED
 *
 * NAMED is a parent known only by its children. A PENDING child holds its parent like a held one, so that room for
 * a child is never made by evicting its own parent.
 *
 * Recency is a list from oldest to newest over HELD nodes. `touch` makes a node newest and `raise` then its ancestors,
 * so that a parent is newer than its children, and the oldest node is a leaf: the order is that of leaf-first LRU.
 */
export class ObjectIndex {
  readonly #salts: SaltRows | undefined
  #capacity = 0
  readonly #keys = new NodeKeys()
  #state = new Uint8Array(0)
  #parent = new Uint32Array(0) // of a FREE node: the next free one
  #children = new Uint32Array(0)
  #bytes = new Float64Array(0)
  #stampMs = new Float64Array(0)
  readonly #recency = new NodeLists()
  /** The same order, cut by salt; empty without salts. */
  readonly #saltRecency = new NodeLists()
  readonly #saltBytes = new RowSums()
  readonly #spaceBytes = new RowSums()
  readonly #spaceObjects = new RowSums()
  #free = NO_NODE
  #objects = 0
  #heldBytes = 0
  #pendingBytes = 0

  /** @param salts the salt of each space, for an adapter with quotas. */
  constructor(capacityObjects = 1024, salts?: SaltRows) {
    this.#salts = salts
    this.#grow(Math.max(16, 2 ** Math.ceil(Math.log2(capacityObjects + 1))))
  }

  /** HELD and LEAVING objects. */
  get objects(): number {
    return this.#objects
  }

  /** Bytes of HELD and LEAVING objects. */
  get heldBytes(): number {
    return this.#heldBytes
  }

  /** Bytes promised to PENDING objects. */
  get pendingBytes(): number {
    return this.#pendingBytes
  }

  /** Nodes are numbers of 1..capacity; for arrays beside the index. */
  get capacity(): number {
    return this.#capacity
  }

  /** The node of a key in any state; NO_NODE when nobody speaks of it. Key i is words[8i .. 8i+8). */
  find(space: number, words: Uint32Array, key: number): number {
    return this.#keys.find(space, words, key)
  }

  /** HELD and LEAVING objects of a space, and their bytes. */
  heldOf(space: number): { readonly objects: number; readonly bytes: number } {
    return { objects: this.#spaceObjects.of(space), bytes: this.#spaceBytes.of(space) }
  }

  /** Bytes of the pending, held and leaving objects of a salt. */
  saltBytes(row: number): number {
    return this.#saltBytes.of(row)
  }

  isHeld(node: number): boolean {
    return this.#state[node] === HELD
  }

  isPending(node: number): boolean {
    return this.#state[node] === PENDING
  }

  /** Nobody holds, writes or deletes it: it may be begun. True for NO_NODE. */
  isAbsent(node: number): boolean {
    return node === NO_NODE || this.#state[node] === NAMED
  }

  bytesOf(node: number): number {
    return this.#bytes[node]!
  }

  spaceOf(node: number): number {
    return this.#keys.spaceOf(node)
  }

  /** The 8 words of a node's hash, as a view. */
  hashOf(node: number): Uint32Array {
    return this.#keys.hashOf(node)
  }

  /** The 8 words of the hash of a node's parent, as a view. Only for PENDING, HELD and LEAVING nodes. */
  parentHashOf(node: number): Uint32Array {
    return this.hashOf(this.#parent[node]!)
  }

  /** The node of the parent, in any state; NO_NODE for a NAMED node. Only for nodes that are in use. */
  parentOf(node: number): number {
    return this.#parent[node]!
  }

  /** Wall-clock milliseconds kept beside the object for its adapter; 0 at first. */
  stampOf(node: number): number {
    return this.#stampMs[node]!
  }

  setStamp(node: number, stampMs: number): void {
    this.#stampMs[node] = stampMs
  }

  /** Starts an object that is neither pending nor held nor leaving. Its bytes count as pending. */
  begin(space: number, hashes: Uint32Array, parents: Uint32Array, key: number, bytes: number): number {
    const parent = this.#name(space, parents, key)
    const node = this.#name(space, hashes, key)
    assert(this.#state[node] === NAMED, 'begin of an object that is there')
    assert(parent !== node, 'an object that is its own parent')
    this.#state[node] = PENDING
    this.#bytes[node] = bytes
    this.#stampMs[node] = 0
    this.#parent[node] = parent
    this.#children[parent]! += 1
    this.#pendingBytes += bytes
    this.#addSaltBytes(node, bytes)
    return node
  }

  /** The object is there, whole; the newest of all. */
  publish(node: number): void {
    assert(this.#state[node] === PENDING, 'publish of an object that was not begun')
    this.#state[node] = HELD
    this.#pendingBytes -= this.#bytes[node]!
    this.#heldBytes += this.#bytes[node]!
    this.#objects += 1
    this.#addSpace(node, 1)
    this.#linkNewest(node)
  }

  /** The object did not come to be. */
  cancel(node: number): void {
    assert(this.#state[node] === PENDING, 'cancel of an object that was not begun')
    this.#pendingBytes -= this.#bytes[node]!
    this.#addSaltBytes(node, -this.#bytes[node]!)
    this.#forget(node)
  }

  /** Makes a held object the newest. Call `raise` after the last touch of a run. */
  touch(node: number): void {
    assert(this.#state[node] === HELD, 'touch of an object that is not held')
    this.#unlink(node)
    this.#linkNewest(node)
  }

  /** Makes the held ancestors of a node newer than it, nearest first. */
  raise(node: number): void {
    for (let at = this.#parent[node]!; this.#state[at] === HELD; at = this.#parent[at]!) this.touch(at)
  }

  /** Touches the held ones among `count` keys of a space, tail first, and then their ancestors. */
  refresh(space: number, hashes: Uint32Array, parents: Uint32Array, count: number): void {
    for (let key = count - 1; key >= 0; key -= 1) {
      const node = this.find(space, hashes, key)
      if (!this.isHeld(node)) continue
      this.touch(node)
      if (!followsNeighbour(hashes, parents, key)) this.raise(node)
    }
  }

  /** The least recent held object without children, or NO_NODE. */
  victim(): number {
    return this.#oldestLeaf(this.#recency, ALL)
  }

  /** The same among the objects of one salt. */
  victimOf(row: number): number {
    return this.#oldestLeaf(this.#saltRecency, row)
  }

  /** The object is being deleted: found no more, its bytes still count. */
  leave(node: number): void {
    assert(this.#state[node] === HELD, 'leave of an object that is not held')
    this.#unlink(node)
    this.#state[node] = LEAVING
  }

  /** The deletion failed: the object is held again, as the newest. */
  stay(node: number): void {
    assert(this.#state[node] === LEAVING, 'stay of an object that is not leaving')
    this.#state[node] = HELD
    this.#linkNewest(node)
    this.raise(node)
  }

  /** The bytes of a leaving object are free. */
  gone(node: number): void {
    assert(this.#state[node] === LEAVING, 'an object gone that was not leaving')
    this.#heldBytes -= this.#bytes[node]!
    this.#addSaltBytes(node, -this.#bytes[node]!)
    this.#addSpace(node, -1)
    this.#objects -= 1
    this.#forget(node)
  }

  /** Held objects, oldest first, into an array: for clear, compaction and restarts. */
  held(): number[] {
    const nodes: number[] = []
    const recency = this.#recency
    for (let node = recency.oldest(ALL); node !== NO_NODE; node = recency.newerThan(node)) nodes.push(node)
    return nodes
  }

  /** The held objects of some spaces, oldest first, into an array. */
  heldIn(spaces: readonly { readonly id: number }[]): number[] {
    const ids = new Set(spaces.map(({ id }) => id))
    return this.held().filter((node) => ids.has(this.spaceOf(node)))
  }

  /** The next held object by number after `node`, 0 before the first; NO_NODE after the last. Held ones keep theirs. */
  nextHeld(node: number): number {
    for (let next = node + 1; next <= this.#capacity; next += 1) if (this.#state[next] === HELD) return next
    return NO_NODE
  }

  /** Checks the whole structure: for tests. */
  verify(): void {
    const children = new Uint32Array(this.#capacity + 1)
    let objects = 0
    let heldBytes = 0
    let pendingBytes = 0
    for (let node = 1; node <= this.#capacity; node += 1) {
      const state = this.#state[node]
      if (state === FREE) continue
      assert(this.find(this.#keys.spaceOf(node), this.hashOf(node), 0) === node, 'an object that is not found')
      if (state === PENDING) pendingBytes += this.#bytes[node]!
      if (state! >= HELD) heldBytes += this.#bytes[node]!
      if (state! >= HELD) objects += 1
      if (state === NAMED) assert(this.#children[node]! > 0, 'a name without children')
      else children[this.#parent[node]!]! += 1
    }
    const hasCounts = (node: number) => this.#state[node] === FREE || children[node] === this.#children[node]
    for (let node = 1; node <= this.#capacity; node += 1) assert(hasCounts(node), 'wrong count of children')
    assert(objects === this.#objects, 'wrong count of objects')
    assert(heldBytes === this.#heldBytes, 'wrong held bytes')
    assert(pendingBytes === this.#pendingBytes, 'wrong pending bytes')
    const held = this.#state.reduce((count, state) => count + (state === HELD ? 1 : 0), 0)
    assert(this.held().length === held, 'wrong recency list')
    if (this.#salts !== undefined) this.#verifySalts(this.#salts)
  }

  #verifySalts(salts: SaltRows): void {
    const bytes = new Float64Array(this.#saltBytes.end)
    const order: number[][] = []
    for (let node = 1; node <= this.#capacity; node += 1)
      if (this.#state[node]! >= PENDING) bytes[this.#saltOf(node, salts)]! += this.#bytes[node]!
    for (const node of this.held()) {
      const row = this.#saltOf(node, salts)
      order[row] ??= []
      order[row].push(node)
    }
    for (let row = 0; row < bytes.length; row += 1) {
      assert(bytes[row] === this.#saltBytes.of(row), 'wrong bytes of a salt')
      let node = this.#saltRecency.oldest(row)
      for (const expected of order[row] ?? []) {
        assert(node === expected, 'the list of a salt has another order than the list of all')
        node = this.#saltRecency.newerThan(node)
      }
      assert(node === NO_NODE, 'the list of a salt is too long')
    }
  }

  /** Counts an object of a space: 1 = it came, -1 = it went. */
  #addSpace(node: number, sign: 1 | -1): void {
    const space = this.#keys.spaceOf(node)
    this.#spaceBytes.add(space, sign * this.#bytes[node]!)
    this.#spaceObjects.add(space, sign)
  }

  #addSaltBytes(node: number, amount: number): void {
    if (this.#salts !== undefined) this.#saltBytes.add(this.#saltOf(node, this.#salts), amount)
  }

  #saltOf(node: number, salts: SaltRows): number {
    return salts.saltRowOf(this.#keys.spaceOf(node))
  }

  /** The node of a key, a NAMED one at first sight. */
  #name(space: number, words: Uint32Array, key: number): number {
    const known = this.find(space, words, key)
    if (known !== NO_NODE) return known
    if (this.#free === NO_NODE) this.#grow(this.#capacity * 2)
    const node = this.#free
    this.#free = this.#parent[node]!
    this.#parent[node] = NO_NODE
    this.#children[node] = 0
    this.#state[node] = NAMED
    this.#keys.name(node, space, words, key)
    return node
  }

  /** Takes away a node's own object; the node stays NAMED while it has children. */
  #forget(node: number): void {
    const parent = this.#parent[node]!
    this.#parent[node] = NO_NODE
    this.#state[node] = NAMED
    if (this.#children[node] === 0) this.#release(node)
    this.#children[parent]! -= 1
    if (this.#children[parent] === 0 && this.#state[parent] === NAMED) this.#release(parent)
  }

  #release(node: number): void {
    this.#keys.forget(node)
    this.#state[node] = FREE
    this.#parent[node] = this.#free
    this.#free = node
  }

  #oldestLeaf(lists: NodeLists, list: number): number {
    let node = lists.oldest(list)
    while (node !== NO_NODE && this.#children[node]! > 0) node = lists.newerThan(node)
    return node
  }

  #linkNewest(node: number): void {
    this.#recency.linkNewest(node, ALL)
    if (this.#salts !== undefined) this.#saltRecency.linkNewest(node, this.#saltOf(node, this.#salts))
  }

  #unlink(node: number): void {
    this.#recency.unlink(node, ALL)
    if (this.#salts !== undefined) this.#saltRecency.unlink(node, this.#saltOf(node, this.#salts))
  }

  #grow(capacity: number): void {
    const nodes = capacity + 1 // there is no node 0
    this.#state = enlarge(this.#state, nodes)
    this.#parent = enlarge(this.#parent, nodes)
    this.#children = enlarge(this.#children, nodes)
    this.#bytes = enlarge(this.#bytes, nodes)
    this.#stampMs = enlarge(this.#stampMs, nodes)
    this.#recency.grow(nodes)
    if (this.#salts !== undefined) this.#saltRecency.grow(nodes)
    for (let node = capacity; node > this.#capacity; node -= 1) {
      this.#parent[node] = this.#free
      this.#free = node
    }
    this.#capacity = capacity
    this.#keys.grow(capacity, (node) => this.#state[node] !== FREE)
  }
}
