/**
 * A reusable list of arena places: row i is shard `rank[i]` of the chunk at `chainIndex[i]` of a hash chain,
 * at `offset[i]` bytes from the start of the arena, `length[i]` bytes long. An out-parameter: the caller owns it,
 * the callee clears and fills it. The arrays are longer than `count`; they grow, never shrink, and are replaced
 * when they grow.
 */
export class SlotList {
  count = 0
  chainIndex: Int32Array
  rank: Int32Array
  offset: Float64Array
  length: Float64Array

  constructor(capacity = 64) {
    this.chainIndex = new Int32Array(capacity)
    this.rank = new Int32Array(capacity)
    this.offset = new Float64Array(capacity)
    this.length = new Float64Array(capacity)
  }

  clear(): void {
    this.count = 0
  }

  push(chainIndex: number, rank: number, offset: number, length: number): void {
    const at = this.count
    if (at === this.chainIndex.length) this.#grow()
    this.chainIndex[at] = chainIndex
    this.rank[at] = rank
    this.offset[at] = offset
    this.length[at] = length
    this.count = at + 1
  }

  /** Turns the rows from `start` to the end round: for lists that were walked backwards. */
  reverseFrom(start: number): void {
    if (this.count - start < 2) return
    this.chainIndex.subarray(start, this.count).reverse()
    this.rank.subarray(start, this.count).reverse()
    this.offset.subarray(start, this.count).reverse()
    this.length.subarray(start, this.count).reverse()
  }

  /** Counts the offsets from `baseOffset` on. */
  offsetsFrom(baseOffset: number): void {
    if (baseOffset === 0) return
    for (let row = 0; row < this.count; row += 1) this.offset[row] = this.offset[row]! - baseOffset
  }

  /** Sum of `length`, in bytes. */
  totalBytes(): number {
    let total = 0
    for (let row = 0; row < this.count; row += 1) total += this.length[row]!
    return total
  }

  #grow(): void {
    const capacity = Math.max(64, this.chainIndex.length * 2)
    this.chainIndex = copyInto(new Int32Array(capacity), this.chainIndex)
    this.rank = copyInto(new Int32Array(capacity), this.rank)
    this.offset = copyInto(new Float64Array(capacity), this.offset)
    this.length = copyInto(new Float64Array(capacity), this.length)
  }
}

function copyInto<T extends Int32Array | Float64Array>(target: T, source: T): T {
  target.set(source)
  return target
}
