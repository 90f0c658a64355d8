/** Bytes of a block: a small exposition fits into one, and what it does not write to is never backed with memory. */
const BLOCK_BYTES = 1024 * 1024

/**
 * Memory that renderings are written into, and used again once they were sent. Renderings of 12 MB from fresh memory have V8
 * collect the whole heap every few scrapes, with as many threads as it has, and those take the processors away from the
 * data thread.
 */
export class TextBlocks {
  #spare: ArrayBufferLike[] = []

  /** A block, with whatever was in it. @param bytes its length at least. */
  take(bytes = 0): Buffer {
    if (bytes > BLOCK_BYTES) return Buffer.allocUnsafeSlow(bytes)
    const spare = this.#spare.pop()
    return spare === undefined ? Buffer.allocUnsafeSlow(BLOCK_BYTES) : Buffer.from(spare)
  }

  /**
   * Takes back the blocks of a rendering; nobody reads them any more. Those of one rendering are kept, the largest so far.
   *
   * @param pieces all that was made of the blocks, and nothing of another rendering.
   */
  give(pieces: readonly Buffer[]): void {
    const blocks = new Set(pieces.map(({ buffer }) => buffer).filter(({ byteLength }) => byteLength === BLOCK_BYTES))
    if (blocks.size > this.#spare.length) this.#spare = [...blocks]
  }
}
