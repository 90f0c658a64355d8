import { CacheError } from '../core/errors.ts'
import { MODEL_LENGTH_MAX, SALT_FORBIDDEN, SALT_LENGTH_MAX } from '../core/ids.ts'

/** What a shard of a model is. One name may be registered once for each world size. */
export interface RegisteredModel {
  readonly model: string
  readonly shardBytes: number
  readonly ranks: number
  readonly layout: string
}

/** Longest layout fingerprint, in UTF-16 code units. */
export const LAYOUT_LENGTH_MAX = 64

/** The layouts that clients have announced, by model name and world size. Bounded; kept until the process ends. */
export class ModelRegistry {
  /** Told of each new layout, before it may be used. */
  onRegister: ((model: RegisteredModel) => void) | null = null
  /** Told of a layout of an earlier engine that another one replaces: what is cached under it must go. */
  onReplaced: ((before: RegisteredModel, now: RegisteredModel) => void) | null = null
  readonly #limit: number
  readonly #largestShardBytes: number
  /** Layouts that an earlier engine knew, and that no client has announced to this one. */
  readonly #recovered = new Set<RegisteredModel>()
  readonly #models = new Map<string, Map<number, RegisteredModel>>()
  #count = 0

  constructor(limit: number, largestShardBytes: number) {
    this.#limit = limit
    this.#largestShardBytes = largestShardBytes
  }

  /** Knows a layout that was announced to an earlier engine. It holds until a client announces another. @throws as `register` */
  restore(model: RegisteredModel): void {
    this.register(model)
    this.#recovered.add(this.#find(model.model, model.ranks)!)
  }

  /** A client works with the layout of this model: it holds from here on. */
  confirm(model: string, ranks: number): void {
    if (this.#recovered.size > 0) this.#recovered.delete(this.#find(model, ranks)!)
  }

  /** Idempotent. @throws CacheError BAD_REQUEST, LAYOUT_MISMATCH, NO_ROOM; nothing is changed then. */
  register(model: RegisteredModel): void {
    checkModelName(model.model)
    checkLayout(model, this.#largestShardBytes)
    const known = this.#find(model.model, model.ranks)
    if (known !== undefined && this.#recovered.delete(known) && !isSame(known, model)) {
      this.#models.get(model.model)!.delete(model.ranks)
      this.#count -= 1
      this.onReplaced?.(known, model)
    } else if (known !== undefined) {
      if (isSame(known, model)) return
      throw new CacheError(
        'LAYOUT_MISMATCH',
        `model ${JSON.stringify(model.model)} is registered with chunk_bytes ${known.shardBytes}` +
          ` (layout ${JSON.stringify(known.layout)}): use those, or another model name`,
        { field: 'chunk_bytes' },
      )
    }
    if (this.#count >= this.#limit) {
      throw new CacheError('NO_ROOM', `${this.#limit} models are registered, which is the limit`, { field: 'model' })
    }
    this.onRegister?.(model)
    const byRanks = this.#models.get(model.model) ?? new Map<number, RegisteredModel>()
    byRanks.set(model.ranks, model)
    this.#models.set(model.model, byRanks)
    this.#count += 1
  }

  #find(model: string, ranks: number): RegisteredModel | undefined {
    return this.#models.get(model)?.get(ranks)
  }

  /** The layouts under a name, in order of registration. */
  find(model: string): readonly RegisteredModel[] {
    return [...(this.#models.get(model)?.values() ?? [])]
  }

  list(): readonly RegisteredModel[] {
    return [...this.#models.values()].flatMap((byRanks) => [...byRanks.values()])
  }
}

function isSame(one: RegisteredModel, other: RegisteredModel): boolean {
  return one.shardBytes === other.shardBytes && one.layout === other.layout
}

/** @throws CacheError BAD_REQUEST */
export function checkModelName(model: string): void {
  if (model.length >= 1 && model.length <= MODEL_LENGTH_MAX && !model.includes('\0')) return
  throw new CacheError('BAD_REQUEST', `model must have 1 to ${MODEL_LENGTH_MAX} characters and no NUL`, {
    field: 'model',
  })
}

/** @throws CacheError BAD_REQUEST */
export function checkSalt(salt: string): void {
  if (salt.length <= SALT_LENGTH_MAX && !SALT_FORBIDDEN.test(salt)) return
  throw new CacheError(
    'BAD_REQUEST',
    `cache_salt must have at most ${SALT_LENGTH_MAX} characters, none of @ / \\ NUL`,
    {
      field: 'cache_salt',
    },
  )
}

function checkLayout({ shardBytes, layout }: RegisteredModel, largestShardBytes: number): void {
  if (!Number.isSafeInteger(shardBytes) || shardBytes < 1 || shardBytes > largestShardBytes) {
    throw new CacheError('BAD_REQUEST', `chunk_bytes must be 1 to ${largestShardBytes}, the size of L1`, {
      field: 'chunk_bytes',
    })
  }
  if (layout.length > LAYOUT_LENGTH_MAX) {
    throw new CacheError('BAD_REQUEST', `layout must have at most ${LAYOUT_LENGTH_MAX} characters`, { field: 'layout' })
  }
}
