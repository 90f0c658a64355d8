import type { SpaceId } from '../../src/core/ids.ts'
import type { L1Cache } from '../../src/l1/l1-cache.ts'
import type { L1Options } from '../../src/l1/options.ts'
import { openSpace } from './l1.ts'

/** An L1 and its key spaces, as a model test of it varies them. */
export interface L1Shape {
  readonly name: string
  readonly options: Partial<L1Options>
  readonly spaces: readonly ShapedSpace[]
}

export interface ShapedSpace {
  readonly salt: string
  readonly ranks: number
  readonly shardBytes: number
  readonly tenant: number
  /** Absent = one for each layout. */
  readonly model?: string
}

/** Three models, each with a part of L1 of its own, one of them with two layouts that change places in it. */
export const PARTED: L1Shape = {
  name: 'three models with parts of their own',
  options: { capacityBytes: 360, extentBytes: 12, isolation: 'model', isolationModels: 3 },
  spaces: [
    { model: 'A', salt: 'a', ranks: 1, shardBytes: 4, tenant: 0 },
    { model: 'B', salt: 'a', ranks: 2, shardBytes: 3, tenant: 1 },
    { model: 'C', salt: 'a', ranks: 1, shardBytes: 4, tenant: 2 },
    { model: 'C', salt: 'b', ranks: 2, shardBytes: 9, tenant: 3 },
  ],
}

export function modelOf({ model, ranks, shardBytes }: ShapedSpace): string {
  return model ?? `m${ranks}-${shardBytes}`
}

export function openSpaces(cache: L1Cache, shape: L1Shape): SpaceId[] {
  return shape.spaces.map((spec) => openSpace(cache, { ...spec, model: modelOf(spec) }))
}

/** A path of 1 to 6 names out of three, so that paths meet often. */
export function anyPath(next: (limit: number) => number): number[] {
  return Array.from({ length: 1 + next(6) }, () => next(3))
}
