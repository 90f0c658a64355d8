import type { Bucket } from './bucket.ts'
import type { BucketIndex } from './bucket-index.ts'
import type { ObjectNames } from './object-names.ts'
import type { S3AdapterOptions } from './options.ts'

/** What writers and the quarantine work on. */
export interface BucketParts {
  readonly options: S3AdapterOptions
  readonly held: BucketIndex
  readonly bucket: Bucket
  readonly names: ObjectNames
  /** Milliseconds since 1970. */
  readonly wallMs: () => number
  /** Takes work that nobody waits for but the adapter's `close`. */
  readonly background: (work: Promise<unknown>) => void
  /** Fires when the adapter closes: ends what nobody waits for. */
  readonly closing: () => AbortSignal
}

const LIMIT_MS = 30_000

/** Corrupt records, kept in the bucket for a look: the newest ones, under names of their own. */
export class Quarantine {
  readonly #parts: BucketParts

  constructor(parts: BucketParts) {
    this.#parts = parts
  }

  /** Moves a held object away: nobody is sent to it any more, at once. One that cannot be moved is deleted. */
  take(node: number): Promise<void> {
    const { options, held, bucket, names, wallMs, closing } = this.#parts
    const condemned = held.condemn(node)
    return held.alone(() =>
      bucket.within(LIMIT_MS, closing(), async (signal) => {
        if (options.quarantineObjects > 0) {
          const { space, hash, name } = condemned
          const to = names.quarantineOf(space.digest, hash, wallMs())
          await bucket.copy(name, options.bucket, to, signal).catch(() => undefined)
        }
        await held.remove([condemned], signal)
        if (options.quarantineObjects > 0) await this.#trim(signal)
      }),
    )
  }

  async #trim(signal: AbortSignal): Promise<void> {
    const { options, bucket, names } = this.#parts
    const kept: { key: string; modifiedMs: number }[] = []
    for await (const page of bucket.list(names.quarantine, LIMIT_MS, signal)) kept.push(...page)
    kept.sort((one, other) => other.modifiedMs - one.modifiedMs)
    const surplus = kept.slice(options.quarantineObjects).map(({ key }) => key)
    await bucket.remove(surplus, signal)
  }
}
