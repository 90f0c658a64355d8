import type { SpaceId } from '../core/ids.ts'
import type { Engine } from './engine.ts'
import type { RegisteredModel } from './model-registry.ts'

/**
 * Whether the spaces of a model are open under another layout than it is registered with: an engine that had forgotten
 * that layout was killed before it opened a space of the new one.
 */
export function hasForgottenLayout({ l1 }: Engine, { model, ranks, shardBytes, layout }: RegisteredModel): boolean {
  const { spaces } = l1
  for (let id = 0; id < spaces.count; id += 1) {
    const spec = spaces.spec(id as SpaceId)
    const isOpen = spec.model === model && spec.ranks === ranks && spaces.find(model, spec.salt, ranks) === id
    if (isOpen && (spec.shardBytes !== shardBytes || spec.layout !== layout)) return true
  }
  return false
}

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
