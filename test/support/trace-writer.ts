import { TraceBatch } from '../../src/replay/trace-batch.ts'
import { random } from './random.ts'

/** Tokens of one block of a trace. */
export const BLOCK_TOKENS = 512
const MS_BETWEEN_REQUESTS_MAX = 100

/** Appends requests at times of their own. Block ids are whole numbers; a block is named by its whole prefix. */
export class TraceWriter {
  readonly batch = new TraceBatch()
  readonly next: (limit: number) => number
  #timeMs = 0
  #freshId = 0

  constructor(seed: number) {
    this.next = random(seed)
  }

  fresh(count: number): number[] {
    return Array.from({ length: count }, () => this.#freshId++)
  }

  ask(ids: readonly number[]): void {
    this.#timeMs += this.next(MS_BETWEEN_REQUESTS_MAX)
    this.batch.push(this.#timeMs, ids.length * BLOCK_TOKENS, 100, ids, ids.length)
  }
}
