import { assert } from '../core/assert.ts'
import { CacheError } from '../core/errors.ts'
import type { SpaceId, TenantId } from '../core/ids.ts'
import { ModelParts } from './model-parts.ts'
import { SaltUsage } from './salt-usage.ts'

/** World sizes are one byte on the wire. */
export const RANKS_MAX = 255
/** Key spaces at most, over the life of a process: a space takes 16 bits of a chunk record. */
export const SPACES_MAX = 65_535

/** One key space: chunks of equal hash in two spaces are two chunks. */
export interface SpaceSpec {
  readonly model: string
  readonly salt: string
  /** World size: how many shards make a chunk. 1..RANKS_MAX */
  readonly ranks: number
  /** Bytes of one shard. */
  readonly shardBytes: number
  /** Tokens of one chunk. */
  readonly chunkTokens: number
  /** Layout fingerprint of the bytes. */
  readonly layout: string
  /** Row of the per-tenant counters. */
  readonly tenant: TenantId
}

/** A space as it is kept. */
export interface OpenSpace extends SpaceSpec {
  /** Row of its salt in `SaltUsage`. */
  readonly saltRow: number
  /** The part of L1 that its chunks lie in. */
  readonly part: number
}

/**
 * The key spaces of L1: (model, salt, ranks) -> SpaceId, 0 upwards. Rows are never reused.
 * All salts of a (model, ranks) share one layout.
 */
export class KeySpaces {
  /** Bytes of each salt over all its spaces, and its quota. */
  readonly salts = new SaltUsage()
  /** Salt row by space. */
  readonly saltRows: Uint16Array
  /** Part of L1 by space. */
  readonly partRows: Uint16Array
  readonly parts: ModelParts
  /** Told of each new space, before anybody else knows it. */
  onOpen: ((spec: SpaceSpec) => void) | null = null
  readonly #limit: number
  readonly #specs: OpenSpace[] = []
  readonly #byKey = new Map<string, SpaceId>()
  readonly #layouts = new Map<string, SpaceSpec>() // first spec of each (model, ranks)

  constructor(limit = SPACES_MAX, parts = new ModelParts({ count: 1, partBytes: 0 })) {
    assert(limit > 0 && limit <= SPACES_MAX, 'key space limit out of range')
    this.#limit = limit
    this.saltRows = new Uint16Array(limit)
    this.partRows = new Uint16Array(limit)
    this.parts = parts
  }

  get count(): number {
    return this.#specs.length
  }

  /**
   * The id of a space, made at the first call.
   * @throws CacheError LAYOUT_MISMATCH when the (model, ranks) is known with another shard size, chunk size or
   *   layout; BAD_REQUEST for sizes out of range; NO_ROOM past the limit, and when the model gets no part of L1.
   */
  open(spec: SpaceSpec): SpaceId {
    const key = keyOf(spec.model, spec.salt, spec.ranks)
    const known = this.#byKey.get(key)
    const layoutKey = keyOf(spec.model, '', spec.ranks)
    const model = this.#layouts.get(layoutKey)
    if (model === undefined) checkSizes(spec)
    else checkLayout(model, spec)
    if (known !== undefined) return known
    if (this.#specs.length >= this.#limit) {
      throw new CacheError('NO_ROOM', `more than ${this.#limit} pairs of model and cache salt`, { field: 'cache_salt' })
    }
    const id = this.#specs.length as SpaceId
    const part = this.parts.take(spec.model)
    this.onOpen?.(spec)
    const saltRow = this.salts.open(spec.salt)
    this.saltRows[id] = saltRow
    this.partRows[id] = part
    this.#specs.push(Object.freeze({ ...spec, saltRow, part }))
    this.#byKey.set(key, id)
    if (model === undefined) this.#layouts.set(layoutKey, spec)
    return id
  }

  /**
   * Forgets the names of a model's spaces: the next `open` of one makes a new space, of any layout. The old ones keep
   * their ids; what is still leased of them ends in its own time.
   */
  retire(model: string, ranks: number): void {
    for (const spec of this.#specs) {
      if (spec.model === model && spec.ranks === ranks) this.#byKey.delete(keyOf(model, spec.salt, ranks))
    }
    this.#layouts.delete(keyOf(model, '', ranks))
  }

  spec(space: SpaceId): OpenSpace {
    const spec = this.#specs[space]
    assert(spec !== undefined, 'unknown key space')
    return spec
  }

  find(model: string, salt: string, ranks: number): SpaceId | -1 {
    return this.#byKey.get(keyOf(model, salt, ranks)) ?? -1
  }
}

// The length in front keeps (`a`, `bc`) and (`ab`, `c`) apart whatever the strings hold.
function keyOf(model: string, salt: string, ranks: number): string {
  return `${ranks}:${model.length}:${model}${salt}`
}

function checkSizes(spec: SpaceSpec): void {
  const { ranks, shardBytes, chunkTokens } = spec
  if (!Number.isInteger(ranks) || ranks < 1 || ranks > RANKS_MAX) {
    throw new CacheError('BAD_REQUEST', `world size ${ranks} is not in 1..${RANKS_MAX}`, { field: 'world_size' })
  }
  if (!Number.isSafeInteger(shardBytes) || shardBytes < 1) {
    throw new CacheError('BAD_REQUEST', `a shard of ${shardBytes} bytes`, { field: 'shard_bytes' })
  }
  if (!Number.isSafeInteger(chunkTokens) || chunkTokens < 1) {
    throw new CacheError('BAD_REQUEST', `a chunk of ${chunkTokens} tokens`, { field: 'chunk_tokens' })
  }
}

function checkLayout(known: SpaceSpec, asked: SpaceSpec): void {
  const isSame =
    known.shardBytes === asked.shardBytes && known.chunkTokens === asked.chunkTokens && known.layout === asked.layout
  if (isSame) return
  throw new CacheError(
    'LAYOUT_MISMATCH',
    `model ${JSON.stringify(asked.model)} is registered with ${known.chunkTokens} tokens in ${known.shardBytes} bytes` +
      ` (${known.layout}), not ${asked.chunkTokens} in ${asked.shardBytes} (${asked.layout})`,
    { field: 'model_name' },
  )
}
