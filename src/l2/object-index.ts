import { assert } from '../core/assert.ts'
import { HASH_WORDS } from '../core/hash-chain.ts'
import { followsNeighbour } from './key-words.ts'

/** Returned instead of a node when there is none. */
export const NO_NODE = 0

const FREE = 0
const NAMED = 1
const PENDING = 2
const HELD = 3
const LEAVING = 4

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
  #words = new Uint32Array(0)
  #state = new Uint8Array(0)
  #space = new Uint32Array(0)
  #parent = new Uint32Array(0) // of a FREE node: the next free one
  #children = new Uint32Array(0)
  #newer = new Uint32Array(1)
  #older = new Uint32Array(1)
  #bytes = new Float64Array(0)
  #stampMs = new Float64Array(0)
  // The recency list again, cut by salt: pairs (newer, older) by node, pairs (oldest, newest) and bytes by salt row.
  #saltLinks = new Uint32Array(0)
  #saltEnds = new Uint32Array(32)
  #saltBytes = new Float64Array(16)
  #spaceBytes = new Float64Array(16)
  #spaceObjects = new Float64Array(16)
  #buckets = new Uint32Array(0)
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
    const mask = this.#buckets.length - 1
    let bucket = mix(space, words, key * HASH_WORDS) & mask
    for (;;) {
      const node = this.#buckets[bucket]!
      if (node === NO_NODE || this.#isKey(node, space, words, key * HASH_WORDS)) return node
      bucket = (bucket + 1) & mask
    }
  }

  /** HELD and LEAVING objects of a space, and their bytes. */
  heldOf(space: number): { readonly objects: number; readonly bytes: number } {
    return { objects: this.#spaceObjects[space] ?? 0, bytes: this.#spaceBytes[space] ?? 0 }
  }

  /** Bytes of the pending, held and leaving objects of a salt. */
  saltBytes(row: number): number {
    return this.#saltBytes[row] ?? 0
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
    return this.#space[node]!
  }

  /** The 8 words of a node's hash, as a view. */
  hashOf(node: number): Uint32Array {
    return this.#words.subarray(node * HASH_WORDS, (node + 1) * HASH_WORDS)
  }

  /** The 8 words of the hash of a node's parent, as a view. Only for PENDING, HELD and LEAVING nodes. */
  parentHashOf(node: number): Uint32Array {
    return this.hashOf(this.#parent[node]!)
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
    let node = this.#newer[0]!
    while (node !== NO_NODE && this.#children[node]! > 0) node = this.#newer[node]!
    return node
  }

  /** The same among the objects of one salt. */
  victimOf(row: number): number {
    let node = this.#saltEnds[2 * row] ?? NO_NODE
    while (node !== NO_NODE && this.#children[node]! > 0) node = this.#saltLinks[2 * node]!
    return node
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
    for (let node = this.#newer[0]!; node !== NO_NODE; node = this.#newer[node]!) nodes.push(node)
    return nodes
  }

  /** The next held object by number after `node`, 0 before the first; NO_NODE after the last. Held ones keep theirs. */
  nextHeld(node: number): number {
    for (let next = node + 1; next <= this.#capacity; next += 1) if (this.#state[next] === HELD) return next
    return NO_NODE
  }

  /** Puts held objects in the order of their stamps, each parent newer than its children. */
  sortByStamp(): void {
    const nodes = this.held()
    const recencyMs = new Map<number, number>()
    const left = new Map<number, number>()
    for (const node of nodes) {
      recencyMs.set(node, this.#stampMs[node]!)
      const parent = this.#parent[node]!
      left.set(parent, (left.get(parent) ?? 0) + 1)
    }
    const order = nodes.filter((node) => !left.has(node)) // leaves; grows by each parent whose children are done
    for (let at = 0; at < order.length; at += 1) {
      const node = order[at]!
      const parent = this.#parent[node]!
      const ownMs = recencyMs.get(parent)
      if (ownMs === undefined) continue
      recencyMs.set(parent, Math.max(ownMs, recencyMs.get(node)!))
      left.set(parent, left.get(parent)! - 1)
      if (left.get(parent) === 0) order.push(parent)
    }
    order.sort((one, other) => recencyMs.get(one)! - recencyMs.get(other)!) // stable: children stay before parents
    for (const node of order) this.touch(node)
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
      assert(this.find(this.#space[node]!, this.hashOf(node), 0) === node, 'an object that is not found')
      if (state === PENDING) pendingBytes += this.#bytes[node]!
      if (state === HELD || state === LEAVING) heldBytes += this.#bytes[node]!
      if (state === HELD || state === LEAVING) objects += 1
      if (state === NAMED) assert(this.#children[node]! > 0, 'a name without children')
      else children[this.#parent[node]!]! += 1
    }
    for (let node = 1; node <= this.#capacity; node += 1) {
      if (this.#state[node] !== FREE) assert(children[node] === this.#children[node], 'wrong count of children')
    }
    assert(objects === this.#objects, 'wrong count of objects')
    assert(heldBytes === this.#heldBytes, 'wrong held bytes')
    assert(pendingBytes === this.#pendingBytes, 'wrong pending bytes')
    const leaving = this.#state.reduce((count, state) => count + (state === LEAVING ? 1 : 0), 0)
    assert(this.held().length === objects - leaving, 'wrong recency list')
    if (this.#salts !== undefined) this.#verifySalts(this.#salts)
  }

  #verifySalts(salts: SaltRows): void {
    const bytes = new Float64Array(this.#saltBytes.length)
    const order: number[][] = []
    for (let node = 1; node <= this.#capacity; node += 1) {
      const isCounted = this.#state[node] !== FREE && this.#state[node] !== NAMED
      if (isCounted) bytes[salts.saltRowOf(this.#space[node]!)]! += this.#bytes[node]!
    }
    for (const node of this.held()) {
      const row = salts.saltRowOf(this.#space[node]!)
      order[row] ??= []
      order[row].push(node)
    }
    for (let row = 0; row < bytes.length; row += 1) {
      assert(bytes[row] === this.#saltBytes[row], 'wrong bytes of a salt')
      let node = this.#saltEnds[2 * row]!
      for (const expected of order[row] ?? []) {
        assert(node === expected, 'the list of a salt has another order than the list of all')
        node = this.#saltLinks[2 * node]!
      }
      assert(node === NO_NODE, 'the list of a salt is too long')
    }
  }

  #addSpace(node: number, sign: 1 | -1): void {
    const space = this.#space[node]!
    if (space >= this.#spaceBytes.length) {
      this.#spaceBytes = enlarge(this.#spaceBytes, 2 * space)
      this.#spaceObjects = enlarge(this.#spaceObjects, 2 * space)
    }
    this.#spaceBytes[space]! += sign * this.#bytes[node]!
    this.#spaceObjects[space]! += sign
  }

  #addSaltBytes(node: number, amount: number): void {
    if (this.#salts === undefined) return
    const row = this.#salts.saltRowOf(this.#space[node]!)
    if (row >= this.#saltBytes.length) {
      this.#saltBytes = enlarge(this.#saltBytes, 2 * row)
      this.#saltEnds = enlarge(this.#saltEnds, 4 * row)
    }
    this.#saltBytes[row]! += amount
  }

  #linkSalt(node: number, row: number): void {
    const newest = this.#saltEnds[2 * row + 1]!
    this.#saltLinks[2 * node] = NO_NODE
    this.#saltLinks[2 * node + 1] = newest
    if (newest === NO_NODE) this.#saltEnds[2 * row] = node
    else this.#saltLinks[2 * newest] = node
    this.#saltEnds[2 * row + 1] = node
  }

  #unlinkSalt(node: number, row: number): void {
    const newer = this.#saltLinks[2 * node]!
    const older = this.#saltLinks[2 * node + 1]!
    if (older === NO_NODE) this.#saltEnds[2 * row] = newer
    else this.#saltLinks[2 * older] = newer
    if (newer === NO_NODE) this.#saltEnds[2 * row + 1] = older
    else this.#saltLinks[2 * newer + 1] = older
  }

  /** The node of a key, a NAMED one at first sight. */
  #name(space: number, words: Uint32Array, key: number): number {
    const known = this.find(space, words, key)
    if (known !== NO_NODE) return known
    if (this.#free === NO_NODE) this.#grow(this.#capacity * 2)
    const node = this.#free
    this.#free = this.#parent[node]!
    const from = key * HASH_WORDS
    for (let word = 0; word < HASH_WORDS; word += 1) this.#words[node * HASH_WORDS + word] = words[from + word]!
    this.#space[node] = space
    this.#parent[node] = NO_NODE
    this.#children[node] = 0
    this.#state[node] = NAMED
    this.#insertBucket(node)
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
    this.#removeBucket(node)
    this.#state[node] = FREE
    this.#parent[node] = this.#free
    this.#free = node
  }

  #linkNewest(node: number): void {
    const newest = this.#older[0]!
    this.#newer[newest] = node
    this.#older[node] = newest
    this.#newer[node] = NO_NODE
    this.#older[0] = node
    if (this.#salts !== undefined) this.#linkSalt(node, this.#salts.saltRowOf(this.#space[node]!))
  }

  #unlink(node: number): void {
    const newer = this.#newer[node]!
    const older = this.#older[node]!
    this.#newer[older] = newer
    this.#older[newer] = older
    if (this.#salts !== undefined) this.#unlinkSalt(node, this.#salts.saltRowOf(this.#space[node]!))
  }

  #isKey(node: number, space: number, words: Uint32Array, from: number): boolean {
    if (this.#space[node] !== space) return false
    const own = node * HASH_WORDS
    for (let word = 0; word < HASH_WORDS; word += 1) {
      if (this.#words[own + word] !== words[from + word]) return false
    }
    return true
  }

  #homeOf(node: number): number {
    return mix(this.#space[node]!, this.#words, node * HASH_WORDS) & (this.#buckets.length - 1)
  }

  #insertBucket(node: number): void {
    const mask = this.#buckets.length - 1
    let bucket = this.#homeOf(node)
    while (this.#buckets[bucket] !== NO_NODE) bucket = (bucket + 1) & mask
    this.#buckets[bucket] = node
  }

  /** Linear probing with backward shift: no tombstones. */
  #removeBucket(node: number): void {
    const mask = this.#buckets.length - 1
    let hole = this.#homeOf(node)
    while (this.#buckets[hole] !== node) hole = (hole + 1) & mask
    for (let next = (hole + 1) & mask; this.#buckets[next] !== NO_NODE; next = (next + 1) & mask) {
      const home = this.#homeOf(this.#buckets[next]!)
      if (((next - home) & mask) < ((next - hole) & mask)) continue // it would land before its home
      this.#buckets[hole] = this.#buckets[next]!
      hole = next
    }
    this.#buckets[hole] = NO_NODE
  }

  #grow(capacity: number): void {
    const nodes = capacity + 1 // node 0 is the ends of the list
    this.#words = enlarge(this.#words, nodes * HASH_WORDS)
    this.#state = enlarge(this.#state, nodes)
    this.#space = enlarge(this.#space, nodes)
    this.#parent = enlarge(this.#parent, nodes)
    this.#children = enlarge(this.#children, nodes)
    this.#newer = enlarge(this.#newer, nodes)
    this.#older = enlarge(this.#older, nodes)
    this.#bytes = enlarge(this.#bytes, nodes)
    this.#stampMs = enlarge(this.#stampMs, nodes)
    if (this.#salts !== undefined) this.#saltLinks = enlarge(this.#saltLinks, 2 * nodes)
    for (let node = capacity; node > this.#capacity; node -= 1) {
      this.#parent[node] = this.#free
      this.#free = node
    }
    const before = this.#capacity
    this.#capacity = capacity
    this.#buckets = new Uint32Array(capacity * 2)
    for (let node = 1; node <= before; node += 1) if (this.#state[node] !== FREE) this.#insertBucket(node)
  }
}

function enlarge<Column extends Uint32Array<ArrayBuffer> | Uint8Array<ArrayBuffer> | Float64Array<ArrayBuffer>>(
  column: Column,
  length: number,
): Column {
  const larger = new (column.constructor as new (length: number) => Column)(length)
  larger.set(column)
  return larger
}

/** Mixes a space and four words of a hash: hashes of real chunks are random, those of replays may not be. */
function mix(space: number, words: Uint32Array, from: number): number {
  let mixed = Math.imul(space + 1, 0x9e3779b1)
  for (let word = 0; word < 4; word += 1) {
    mixed = Math.imul(mixed ^ words[from + word]!, 0x85ebca6b)
    mixed ^= mixed >>> 15
  }
  mixed = Math.imul(mixed, 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}
