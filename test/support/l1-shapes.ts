import type { SpaceId } from '../../src/core/ids.ts'
import type { L1Cache } from '../../src/l1/l1-cache.ts'
import type { L1Options } from '../../src/l1/options.ts'
import { openSpace } from './l1.ts'

/** An L1 and its key spaces, as a model test of it varies them. */
export interface L1Shape {
  readonly name: string
  readonly options: Partial<L1Options>
  readonly spaces: readonly { salt: string; ranks: number; shardBytes: number; tenant: number }[]
}

/** Every eviction policy that a model test must hold for. */

export function openSpaces(cache: L1Cache, shape: L1Shape): SpaceId[] {
  return shape.spaces.map((spec) => openSpace(cache, { ...spec, model: `m${spec.ranks}-${spec.shardBytes}` }))
}

/** A path of 1 to 6 names out of three, so that paths meet often. */
export function anyPath(next: (limit: number) => number): number[] {
  return Array.from({ length: 1 + next(6) }, () => next(3))
}
