import { ChunkHasher } from '../../src/core/chunk-hash.ts'
import { HASH_BYTES } from '../../src/core/hash-chain.ts'
import type { HashLane } from '../../src/engine/hash-queue.ts'

const hasher = await ChunkHasher.create()

/** A lane that hashes each slice once the test lets it. Fails the test that gives it two at a time. */
export class GatedLane implements HashLane {
  /** First token of each slice that came, in order. */
  readonly slices: number[] = []
  #open: ((isGood: boolean) => void) | null = null
  #isOpenForGood = false

  get isBusy(): boolean {
    return this.#open !== null
  }

  async hash(parent: Uint8Array, tokens: Uint32Array, chunkTokens: number): Promise<Uint8Array> {
    if (this.#open !== null) throw new Error('a second slice on a busy lane')
    this.slices.push(tokens[0]!)
    const given = { parent: parent.slice(), tokens: tokens.slice() }
    const isGood = this.#isOpenForGood || (await new Promise<boolean>((resolve) => (this.#open = resolve)))
    this.#open = null
    if (!isGood) throw new Error('the lane is lost')
    const hashes = new Uint8Array(Math.floor(given.tokens.length / chunkTokens) * HASH_BYTES)
    hasher.hashRun(given.parent, given.tokens, chunkTokens, hashes)
    return hashes
  }

  /** Lets the slice that waits pass, and what comes of it happen. */
  async pass(): Promise<void> {
    this.#open?.(true)
    await new Promise<void>((resolve) => setImmediate(resolve))
  }

  /** Fails the slice that waits. */
  async lose(): Promise<void> {
    this.#open?.(false)
    await new Promise<void>((resolve) => setImmediate(resolve))
  }

  openForGood(): void {
    this.#isOpenForGood = true
    this.#open?.(true)
  }
}
