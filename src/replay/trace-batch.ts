import { assert } from '../core/assert.ts'

/**
 * Requests of a trace, column by column. It grows and never shrinks; `clear` keeps the memory.
 * Block ids of request i are `ids[firstId[i] .. firstId[i + 1])`, root first.
 */
export class TraceBatch {
  count = 0
  timestampMs = new Float64Array(64)
  inputTokens = new Float64Array(64)
  outputTokens = new Float64Array(64)
  firstId = new Uint32Array(65)
  ids = new Uint32Array(1024)

  clear(): void {
    this.count = 0
    this.firstId[0] = 0
  }

  /** Block ids over all requests. */
  get idCount(): number {
    return this.firstId[this.count]!
  }

  /** @param blockIds whole numbers of 0..2^32-1, of which the first `blocks` are taken. */
  push(
    timestampMs: number,
    inputTokens: number,
    outputTokens: number,
    blockIds: ArrayLike<number>,
    blocks: number,
  ): void {
    assert(blocks <= blockIds.length, 'fewer ids than blocks')
    const index = this.count
    const from = this.idCount
    this.#ensureRoom(index + 1, from + blocks)
    this.timestampMs[index] = timestampMs
    this.inputTokens[index] = inputTokens
    this.outputTokens[index] = outputTokens
    for (let block = 0; block < blocks; block += 1) this.ids[from + block] = blockIds[block]!
    this.firstId[index + 1] = from + blocks
    this.count = index + 1
  }

  /** Appends request `index` of another batch. */
  pushFrom(other: TraceBatch, index: number): void {
    const from = other.firstId[index]!
    const to = other.firstId[index + 1]!
    this.push(
      other.timestampMs[index]!,
      other.inputTokens[index]!,
      other.outputTokens[index]!,
      other.ids.subarray(from, to),
      to - from,
    )
  }

  #ensureRoom(requests: number, ids: number): void {
    if (requests > this.timestampMs.length) {
      const length = this.timestampMs.length * 2
      this.timestampMs = grown(this.timestampMs, new Float64Array(length))
      this.inputTokens = grown(this.inputTokens, new Float64Array(length))
      this.outputTokens = grown(this.outputTokens, new Float64Array(length))
      this.firstId = grown(this.firstId, new Uint32Array(length + 1))
    }
    if (ids > this.ids.length) this.ids = grown(this.ids, new Uint32Array(Math.max(ids, this.ids.length * 2)))
  }
}

function grown<Column extends Float64Array<ArrayBuffer> | Uint32Array<ArrayBuffer>>(from: Column, to: Column): Column {
  to.set(from)
  return to
}
