import type { SpaceId } from '../core/ids.ts'
import type { Engine } from './engine.ts'

/** Forgets a layout of a model and what L0 and L1 hold under it: another one takes its place. @returns L1 shards. */
export function forgetLayout({ l1, device, pins }: Engine, model: string, ranks: number): number {
  let shards = 0
  for (let id = 0; id < l1.spaces.count; id += 1) {
    const space = id as SpaceId
    const spec = l1.spaces.spec(space)
    if (spec.model !== model || spec.ranks !== ranks) continue
    device?.removeSpace(space)
    pins.removeSpace(space)
    shards += l1.remove({ space }, 'clear')
  }
  l1.spaces.retire(model, ranks)
  return shards
}
