import type { SpaceId } from '../../core/ids.ts'
import type { WireKey } from '../../protocol/mp/messages.ts'
import type { MpParts } from './parts.ts'

/** Chunks [from, to). */
export interface ChunkRange {
  readonly from: number
  readonly to: number
}

/** The space that a key is about, opened on demand; null when no worker has registered the model. @throws CacheError NO_ROOM */
export function spaceOf({ engine, models }: MpParts, { model, salt, worldSize }: WireKey): SpaceId | null {
  const open = engine.l1.spaces.find(model, salt, worldSize)
  if (open !== -1) return open
  const known = models.find(model).find((one) => one.ranks === worldSize)
  return known === undefined ? null : engine.openSpace({ ...known, salt })
}

/** The whole chunks of [start, end) of a key; null when it does not begin and end at chunks, or has not the tokens. */
export function chunksOf(key: WireKey, chunkTokens: number): ChunkRange | null {
  const isWhole = key.start % chunkTokens === 0 && key.end % chunkTokens === 0
  if (!isWhole || key.end <= key.start || key.end > key.tokens.length) return null
  return { from: key.start / chunkTokens, to: key.end / chunkTokens }
}
