import type { KeyWords } from '../key-words.ts'
import type { ObjectIndex } from '../object-index.ts'
import { FITS, NO_ROOM, ObjectRoom } from '../object-room.ts'
import type { SpaceEntry, SpaceTable } from '../space-table.ts'
import type { DirectoryIndex } from './directory-index.ts'
import { errorCode } from './disk.ts'
import type { Manifest } from './manifest.ts'
import type { ObjectFiles } from './object-files.ts'

export interface RemoverParts {
  readonly capacityBytes: number
  readonly files: ObjectFiles
  readonly manifest: Manifest
  readonly index: ObjectIndex
  readonly directory: DirectoryIndex
  readonly spaces: SpaceTable
}

/** An object that is begun, and that room is made for. */
export interface Begun {
  readonly space: number
  /** Of its file. */
  readonly bytes: number
}

/** Room for one object. */
export interface Room {
  /** The file of an evicted object, of the same length: see `ObjectFiles.take`. Null = none. */
  readonly over: string | null
}

/**
 * Takes objects out of a directory: for room, on request, or because they are corrupt. An object leaves the index
 * before its file goes, and its bytes count until the file is gone. Everything here runs inside `alone`.
 */
export class ObjectRemover {
  readonly #parts: RemoverParts
  #last: Promise<unknown> = Promise.resolve()
  readonly room: ObjectRoom

  constructor(parts: RemoverParts) {
    this.#parts = parts
    this.room = new ObjectRoom(parts.index, parts.spaces, parts.capacityBytes)
  }

  /** Runs `operation` after everything that was handed in before it. */
  alone<T>(operation: () => Promise<T>): Promise<T> {
    const result = this.#last.then(operation)
    this.#last = result.catch(() => undefined)
    return result
  }

  /** Resolves when everything handed in so far is done. */
  async idle(): Promise<void> {
    await this.#last
  }

  /**
   * Evicts until what is held and begun fits: of a space for which an object was begun, under its quota, and of all
   * under the capacity. The file of one victim is left for that object to be written over.
   *
   * @returns null when it cannot be.
   */
  async makeRoom(begun?: Begun): Promise<Room | null> {
    const { index, files } = this.#parts
    let over: string | null = null
    for (let victim = this.room.next(begun?.space); victim !== FITS; victim = this.room.next(begun?.space)) {
      const isTaken: boolean = victim !== NO_ROOM && over === null && index.bytesOf(victim) === begun?.bytes
      const freed: Room | null = victim === NO_ROOM ? null : await this.#delete(victim, isTaken)
      if (freed === null) {
        await files.discard(over)
        return null
      }
      over ??= freed.over
      this.room.noteEvicted()
    }
    return { over }
  }

  /** Evicts what salts hold beyond their quotas. */
  async trimQuotas(): Promise<void> {
    for (let victim = this.room.nextOver(); victim !== FITS; victim = this.room.nextOver()) {
      if ((await this.#delete(victim)) === null) return
      this.room.noteEvicted()
    }
    await this.#parts.manifest.flush()
  }

  /** @returns how many were deleted. */
  async deleteAll(nodes: readonly number[]): Promise<number> {
    const { files, manifest, directory } = this.#parts
    let deleted = 0
    const leaves = new Set<string>()
    for (const node of nodes) {
      const leaf = files.leafOf(this.#spaceOf(node), directory.hashOf(node))
      if ((await this.#delete(node)) === null) continue
      leaves.add(leaf)
      deleted += 1
    }
    for (const leaf of leaves) await files.syncFolder(leaf).catch(() => undefined)
    await manifest.flush()
    return deleted
  }

  /**
   * Drops an object from the index whose file somebody else deleted. Key 0 of `words` names it. A file that was not
   * there because the object was being evicted may be back by now.
   */
  async forgetMissing(space: SpaceEntry, words: KeyWords): Promise<void> {
    const { index, files, directory } = this.#parts
    const node = index.find(space.id, words, 0)
    if (!index.isHeld(node) || (await files.isThere(files.pathOf(space, directory.hashOf(node))))) return
    this.#forget(node, space)
  }

  /** Moves the file of a corrupt object away. One that cannot be moved stays, and is found corrupt again. */
  async quarantine(space: SpaceEntry, words: KeyWords, wallMs: number): Promise<void> {
    const { index, files, directory } = this.#parts
    const node = index.find(space.id, words, 0)
    if (!index.isHeld(node)) return
    const hash = directory.hashOf(node)
    try {
      await files.quarantine(files.pathOf(space, hash), space.digest, hash, wallMs)
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') return
    }
    this.#forget(node, space)
  }

  #forget(node: number, space: SpaceEntry): void {
    const { index, manifest, directory } = this.#parts
    manifest.noteRemoved(space.digest, directory.hashOf(node))
    index.leave(node)
    index.gone(node)
  }

  /**
   * Deletes the file of a held object, or takes it to be written over.
   *
   * @returns null when neither can be done: the object stays held.
   */
  async #delete(node: number, isTaken = false): Promise<Room | null> {
    const { index, files, manifest, directory } = this.#parts
    const space = this.#spaceOf(node)
    const hash = directory.hashOf(node)
    let over: string | null = null
    index.leave(node)
    try {
      if (isTaken) over = await files.take(space, hash)
      else await files.unlink(space, hash)
    } catch {
      index.stay(node)
      return null
    }
    index.gone(node)
    manifest.noteRemoved(space.digest, hash)
    return { over }
  }

  #spaceOf(node: number): SpaceEntry {
    return this.#parts.spaces.byId(this.#parts.index.spaceOf(node))
  }
}
