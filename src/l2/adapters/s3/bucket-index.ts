import type { KeySpace } from '../../adapter.ts'
import type { KeyWords } from '../../key-words.ts'
import { HEADER_BYTES, readHeader } from '../../object-format.ts'
import { NO_NODE, ObjectIndex } from '../../object-index.ts'
import { FITS, NO_ROOM, ObjectRoom } from '../../object-room.ts'
import { isOwnAncestor } from '../../own-ancestor.ts'
import { sortByStamp } from '../../sort-by-stamp.ts'
import { type SpaceEntry, SpaceTable, spaceDigest } from '../../space-table.ts'
import type { Bucket, ListedObject } from './bucket.ts'
import type { ObjectNames } from './object-names.ts'

export interface BucketIndexParts {
  readonly capacityBytes: number
  readonly bucket: Bucket
  readonly names: ObjectNames
  /** Milliseconds since 1970. */
  readonly wallMs: () => number
}

/** An object that left the index, and is being deleted. */
export interface Condemned {
  readonly name: string
  readonly space: SpaceEntry
  readonly hash: KeyWords
  readonly parent: KeyWords
  readonly bytes: number
  /** Why it was evicted; undefined when it was not. */
  readonly reason: 'room' | 'quota' | undefined
}

/** Objects of a page that are looked into for the space that they belong to. */
const PAGE_READS_MAX = 8
/** One page of a listing, or one answer to what an opening asks. */
const PAGE_LIMIT_MS = 30_000

/**
 * What this engine knows to be in the bucket: brought back by a listing at open, kept up by its own stores and
 * deletions, and corrected by later listings.
 *
 * An object leaves the index before it is deleted, so that nobody is sent to it, and its bytes count until it is
 * deleted: `condemned`. One that could not be deleted comes back. Deletions run one at a time, in `alone`.
 */
export class BucketIndex {
  readonly spaces = new SpaceTable()
  readonly index = new ObjectIndex(1024, this.spaces)
  readonly room: ObjectRoom
  readonly #parts: BucketIndexParts
  /** Spaces whose description is in the bucket. */
  readonly #described = new Set<number>()
  /** Names deleted, or being deleted, since a listing began that is not read to its end. */
  #deletedMeanwhile: Set<string> | undefined
  /** Names that are being deleted. */
  readonly #deleting = new Set<string>()
  #last: Promise<unknown> = Promise.resolve()
  #lastListing: Promise<unknown> = Promise.resolve()
  #condemnedBytes = 0
  #condemnedObjects = 0
  #brokenObjects = 0

  constructor(parts: BucketIndexParts) {
    this.#parts = parts
    this.room = new ObjectRoom(this.index, this.spaces, parts.capacityBytes)
  }

  get bytes(): number {
    return this.index.heldBytes + this.#condemnedBytes
  }

  get objects(): number {
    return this.index.objects + this.#condemnedObjects
  }

  /** Objects of a wrong length that listings showed. They are deleted. */
  get brokenObjects(): number {
    return this.#brokenObjects
  }

  nameOf(node: number): string {
    const { digest } = this.spaces.byId(this.index.spaceOf(node))
    return this.#parts.names.objectOf(digest, this.index.hashOf(node), this.index.parentHashOf(node))
  }

  /** Runs `operation` after everything that was handed in before it. */
  alone<T>(operation: () => T | Promise<T>): Promise<T> {
    const result = this.#last.then(operation)
    this.#last = result.catch(() => undefined)
    return result
  }

  /** Resolves when everything handed in so far is done. */
  async idle(): Promise<void> {
    await this.#last
  }

  /** Writes down what a space's digest stands for, once. */
  async describe(entry: SpaceEntry, signal: AbortSignal): Promise<void> {
    if (this.#described.has(entry.id)) return
    await this.#parts.bucket.put(
      this.#parts.names.spaceOf(entry.digest),
      [Buffer.from(JSON.stringify(entry.space))],
      signal,
    )
    this.#described.add(entry.id)
  }

  /**
   * Makes the index what the bucket has. Objects that others stored come in, those that others deleted go; what
   * this engine stores or deletes meanwhile stays as it is.
   */
  refresh(signal?: AbortSignal): Promise<void> {
    const result = this.#lastListing.then(() => this.#refresh(signal))
    this.#lastListing = result.catch(() => undefined)
    return result
  }

  async #refresh(signal: AbortSignal | undefined): Promise<void> {
    const { bucket, names, wallMs } = this.#parts
    const startMs = wallMs()
    const deleted = new Set(this.#deleting)
    this.#deletedMeanwhile = deleted
    const seen = new Set<number>()
    const broken: string[] = []
    try {
      await this.#readSpaces(signal)
      const bySpace = new Map<string, SpaceEntry | undefined>()
      for await (const page of bucket.list(names.objects, PAGE_LIMIT_MS, signal)) {
        await this.#nameSpaces(page, bySpace, signal)
        for (const listed of page) {
          const name = names.parseObject(listed.key)
          const space = name === undefined ? undefined : bySpace.get(name.digest)
          if (name === undefined || space === undefined || deleted.has(listed.key)) continue
          if (listed.bytes !== HEADER_BYTES + space.space.shardBytes) broken.push(listed.key)
          else seen.add(this.#admit(space, name.hash, name.parent, listed))
        }
      }
    } finally {
      this.#deletedMeanwhile = undefined
    }
    for (const node of this.index.held()) {
      if (!seen.has(node) && this.index.stampOf(node) < startMs) this.drop(node)
    }
    sortByStamp(this.index)
    this.#brokenObjects += broken.length
    await bucket.within(PAGE_LIMIT_MS, signal, (limited) => bucket.remove(broken, limited))
  }

  /** Puts an object that is there into the index. @returns its node; NO_NODE when it has no place there. */
  add(space: SpaceEntry, hashes: KeyWords, parents: KeyWords, key: number, stampMs: number): number {
    if (isOwnAncestor(this.index, space.id, hashes, parents, key)) return NO_NODE
    const node = this.index.begin(space.id, hashes, parents, key, HEADER_BYTES + space.space.shardBytes)
    this.index.publish(node)
    this.index.setStamp(node, stampMs)
    return node
  }

  /** Takes an object out of the index that is not there any more. */
  drop(node: number): void {
    this.index.leave(node)
    this.index.gone(node)
  }

  /**
   * Takes the least recent leaves out of the index until what is held and begun fits: of a space for which an object
   * was begun, under its quota, and of all under the capacity. False when it cannot be.
   * @param condemned out: what `remove` must delete.
   */
  makeRoom(condemned: Condemned[], space?: number): boolean {
    for (let victim = this.room.next(space); victim !== FITS; victim = this.room.next(space)) {
      if (victim === NO_ROOM) return false
      condemned.push(this.condemn(victim, this.room.isForQuota ? 'quota' : 'room'))
    }
    return true
  }

  /** Takes out what salts hold beyond their quotas. @param condemned out: what `remove` must delete. */
  trimQuotas(condemned: Condemned[]): void {
    for (let victim = this.room.nextOver(); victim !== FITS; victim = this.room.nextOver()) {
      condemned.push(this.condemn(victim, 'quota'))
    }
  }

  /** Takes a held object out of the index, for `remove` to delete. */
  condemn(node: number, reason?: Condemned['reason']): Condemned {
    const { index } = this
    const condemned = {
      reason,
      name: this.nameOf(node),
      space: this.spaces.byId(index.spaceOf(node)),
      hash: index.hashOf(node).slice(),
      parent: index.parentHashOf(node).slice(),
      bytes: index.bytesOf(node),
    }
    this.#deleting.add(condemned.name)
    this.#deletedMeanwhile?.add(condemned.name)
    this.#condemnedBytes += condemned.bytes
    this.#condemnedObjects += 1
    this.drop(node)
    return condemned
  }

  /** Deletes what was condemned. What cannot be deleted is held again. @returns how many were deleted; never rejects. */
  async remove(condemned: readonly Condemned[], signal: AbortSignal): Promise<number> {
    if (condemned.length === 0) return 0
    const names = condemned.map(({ name }) => name)
    const failed = await this.#parts.bucket.remove(names, signal).catch(() => new Set(names))
    for (const { name, space, hash, parent, bytes, reason } of condemned) {
      this.#condemnedBytes -= bytes
      this.#condemnedObjects -= 1
      const node = this.index.find(space.id, hash, 0)
      this.#deleting.delete(name)
      if (reason !== undefined && !failed.has(name)) this.room.noteEvicted(reason === 'quota')
      if (failed.has(name) && !this.index.isHeld(node) && !this.index.isPending(node)) {
        this.index.raise(this.add(space, hash, parent, 0, this.#parts.wallMs()))
      }
    }
    return condemned.length - failed.size
  }

  /** @returns the node of a listed object; NO_NODE when it has no place in the index. */
  #admit(space: SpaceEntry, hash: KeyWords, parent: KeyWords, { modifiedMs }: ListedObject): number {
    const node = this.index.find(space.id, hash, 0)
    if (this.index.isHeld(node) || this.index.isPending(node)) return node
    return this.add(space, hash, parent, 0, modifiedMs)
  }

  async #readSpaces(signal: AbortSignal | undefined): Promise<void> {
    const { bucket, names } = this.#parts
    for await (const page of bucket.list(names.spaces, PAGE_LIMIT_MS, signal)) {
      for (const { key } of page) {
        const digest = names.parseSpace(key)
        if (digest === undefined || this.spaces.entries.some((entry) => entry.digest === digest)) continue
        const text = await bucket.within(PAGE_LIMIT_MS, signal, (limited) => bucket.getBytes(key, limited))
        const space = text === undefined ? undefined : parseSpace(text.toString())
        if (space === undefined || spaceDigest(space) !== digest) continue
        this.#described.add(this.spaces.open(space).id)
      }
    }
  }

  /** Finds the spaces of a page. One whose description is lost is known again from the header of any of its objects. */
  async #nameSpaces(
    page: readonly ListedObject[],
    bySpace: Map<string, SpaceEntry | undefined>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const { bucket, names } = this.#parts
    let reads = 0
    for (const { key } of page) {
      const digest = names.parseObject(key)?.digest
      if (digest === undefined || bySpace.get(digest) !== undefined || reads >= PAGE_READS_MAX) continue
      const known = this.spaces.entries.find((entry) => entry.digest === digest)
      bySpace.set(digest, known)
      if (known !== undefined) continue
      reads += 1
      const bytes = await bucket.within(PAGE_LIMIT_MS, signal, (limited) => bucket.getBytes(key, limited, HEADER_BYTES))
      const header = bytes === undefined ? 'short' : readHeader(bytes.subarray(0, HEADER_BYTES))
      if (typeof header === 'string' || spaceDigest(header.space) !== digest) continue
      bySpace.set(digest, this.spaces.open(header.space))
    }
  }
}

function parseSpace(text: string): KeySpace | undefined {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as KeySpace) : undefined
  } catch {
    return undefined
  }
}
