import { assert } from '../core/assert.ts'
import { NO_RUN } from './run-table.ts'

/**
 * The device blocks that one request holds: runs of the chunks [from, to) of its hash chain, in order, and possibly a
 * tail of blocks without identity. The caller owns it and may reuse it once released; only the block manager writes it.
 */
export class BlockTable {
  /** Key space of all its runs. Set it while the table is empty. */
  space: number
  from = 0
  count = 0
  tail = NO_RUN
  runs: Int32Array

  constructor(space: number, capacityChunks = 64) {
    this.space = space
    this.runs = new Int32Array(capacityChunks)
  }

  /** End of the range, exclusive: where the next acquire or allocate must start. */
  get to(): number {
    return this.from + this.count
  }

  get isEmpty(): boolean {
    return this.count === 0 && this.tail === NO_RUN
  }

  /** The run that holds chunk `index` of the chain. */
  runOf(index: number): number {
    assert(index >= this.from && index < this.to, 'chunk is not in the block table')
    return this.runs[index - this.from]!
  }

  /** Makes room for chunks [from, to) behind those it has. */
  prepare(from: number, to: number): void {
    assert(from <= to && (this.count === 0 || from === this.to), 'block table with a gap')
    if (this.count === 0) this.from = from
    const wanted = to - this.from
    if (wanted <= this.runs.length) return
    const runs = new Int32Array(Math.max(wanted, this.runs.length * 2))
    runs.set(this.runs)
    this.runs = runs
  }

  clear(): void {
    this.from = 0
    this.count = 0
    this.tail = NO_RUN
  }
}
