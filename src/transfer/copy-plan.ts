import type { BlockManager } from '../l0/block-manager.ts'
import { NO_BLOCK } from '../l0/block-pool.ts'
import type { CopyBatch, Direction } from '../l0/device.ts'

/** Copies of one batch between blocks and slots, reused from batch to batch. Grows, never shrinks. */
export class CopyPlan implements CopyBatch {
  direction: Direction = 'store'
  count = 0
  deviceOffsets = new Float64Array(256)
  hostOffsets = new Float64Array(256)
  lengths = new Float64Array(256)

  clear(direction: Direction): void {
    this.direction = direction
    this.count = 0
  }

  /**
   * Adds the copies of `length` bytes that start `skipBytes` into a run of blocks and `hostOffset` into the host
   * memory. The bytes of a run fill its blocks one after another.
   */
  addRun(blocks: BlockManager, run: number, skipBytes: number, hostOffset: number, length: number): void {
    const { blockBytes } = blocks
    let block = blocks.firstBlock(run)
    let skip = skipBytes
    for (; skip >= blockBytes; skip -= blockBytes) block = blocks.nextBlock(block)
    for (let done = 0; done < length && block !== NO_BLOCK; block = blocks.nextBlock(block)) {
      const bytes = Math.min(blockBytes - skip, length - done)
      this.#add(block * blockBytes + skip, hostOffset + done, bytes)
      done += bytes
      skip = 0
    }
  }

  /** Adds one copy, or lengthens the last one when it goes on where that ends on both sides. */
  #add(deviceOffset: number, hostOffset: number, bytes: number): void {
    const last = this.count - 1
    if (last >= 0) {
      const length = this.lengths[last]!
      if (this.deviceOffsets[last]! + length === deviceOffset && this.hostOffsets[last]! + length === hostOffset) {
        this.lengths[last] = length + bytes
        return
      }
    }
    if (this.count === this.lengths.length) this.#grow()
    this.deviceOffsets[this.count] = deviceOffset
    this.hostOffsets[this.count] = hostOffset
    this.lengths[this.count] = bytes
    this.count += 1
  }

  #grow(): void {
    this.deviceOffsets = doubled(this.deviceOffsets)
    this.hostOffsets = doubled(this.hostOffsets)
    this.lengths = doubled(this.lengths)
  }
}

function doubled(values: Float64Array): Float64Array<ArrayBuffer> {
  const longer = new Float64Array(values.length * 2)
  longer.set(values)
  return longer
}
