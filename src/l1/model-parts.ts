import { assert } from '../core/assert.ts'
import { CacheError } from '../core/errors.ts'
import type { L1Options } from './options.ts'

/** Parts at most. */
export const PARTS_MAX = 64

/** How L1 is cut: `count` parts of `partBytes`, one behind the other. */
export interface PartShape {
  readonly count: number
  readonly partBytes: number
}

/** The parts of an L1 with these options: one, when nothing is isolated. */
export function partShape({
  capacityBytes,
  isolation,
  isolationModels,
}: Pick<L1Options, 'capacityBytes' | 'isolation' | 'isolationModels'>): PartShape {
  const count = isolation === 'none' ? 1 : isolationModels
  assert(count >= 1 && count <= PARTS_MAX && capacityBytes % count === 0, 'L1 is no whole number of equal parts')
  return { count, partBytes: capacityBytes / count }
}

/**
 * Which part of L1 belongs to which model.
 *
 *   arena   |  part 0: model A  |  part 1: model B  |  part 2: nobody yet  |
 *
 * A part is a segment of shared memory. The workers of its model map it, and lock its pages for a GPU: a page that was
 * theirs stays within their reach for as long as they live, whatever is done to the file. So a part is its model's for
 * good; only an L1 that starts empty gives parts anew. With one part, it is everybody's.
 */
export class ModelParts {
  readonly count: number
  readonly partBytes: number
  /** Told of a part and its model before anybody else is. What it throws, `take` throws, and nothing was taken. */
  onTake: ((model: string) => void) | null = null
  readonly #models: string[] = []

  constructor({ count, partBytes }: PartShape) {
    this.count = count
    this.partBytes = partBytes
  }

  /** The part of a model, taken at the first call. @throws CacheError NO_ROOM when others have them all. */
  take(model: string): number {
    if (this.count === 1) return 0
    const known = this.#models.indexOf(model)
    if (known >= 0) return known
    if (this.#models.length === this.count) {
      const fix = 'start the engine with a larger --l1-isolation-models: that empties L1'
      const message = `model ${JSON.stringify(model)} gets no part of L1: all ${this.count} are taken; ${fix}`
      throw new CacheError('NO_ROOM', message, { field: 'model' })
    }
    this.onTake?.(model)
    return this.#models.push(model) - 1
  }

  /** The part of a model, or -1. */
  find(model: string): number {
    return this.count === 1 ? 0 : this.#models.indexOf(model)
  }

  /** The models that have a part, in the order of their parts. Empty when there is but one part. */
  list(): readonly string[] {
    return this.#models
  }
}
