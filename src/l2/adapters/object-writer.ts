import type { Clock } from '../../core/clock.ts'
import { OUTCOME_CORRUPT, OUTCOME_FAILED, OUTCOME_FULL, OUTCOME_OK, outcomeOfOther } from '../adapter.ts'
import { followsNeighbour, type KeyWords } from '../key-words.ts'
import type { ObjectIndex } from '../object-index.ts'
import { isOwnAncestor } from '../own-ancestor.ts'
import { isFull } from './disk.ts'
import type { Lane } from './lanes.ts'
import type { Manifest } from './manifest.ts'
import { fileBytes, type ObjectFiles } from './object-files.ts'
import { hexOf, type Reading } from './object-reader.ts'
import type { ObjectRemover } from './object-remover.ts'

export interface WriterParts {
  readonly clock: Clock
  readonly files: ObjectFiles
  readonly manifest: Manifest
  readonly index: ObjectIndex
  readonly remover: ObjectRemover
}

/** The batch that objects are written for. */
export interface Writing extends Reading {
  readonly parents: KeyWords
  readonly outcomes: Uint8Array
  bytes: number
  /** The last key that found no room. */
  fullKey: number
}

/** Keys by the folder that their new objects are in. */
export type Leaves = Map<string, number[]>

/** One object being written. */
interface ObjectWrite {
  readonly node: number
  /** How it ends: an OUTCOME_*. */
  readonly ended: Promise<number>
  end(outcome: number): void
}

/** A write that was begun with its room made, or one that another batch began. */
type Place = { readonly write: ObjectWrite; readonly isOwn: boolean; readonly over: string | null }

/** Writes objects of a directory, each once: whoever stores what is being written waits for that. */
export class ObjectWriter {
  readonly #parts: WriterParts
  /** By pending node. */
  readonly #writing = new Map<number, ObjectWrite>()

  constructor(parts: WriterParts) {
    this.#parts = parts
  }

  /** Writes object `key` from `source` (shardBytes), after its room was made. @returns an OUTCOME_*. @param leaves grows. */
  async write(work: Writing, key: number, source: Uint8Array, lane: Lane, leaves: Leaves): Promise<number> {
    const { files, remover } = this.#parts
    const place = await remover.alone(() => this.#begin(work, key))
    if (typeof place === 'number') return place
    const { write, isOwn, over } = place
    if (!isOwn) return outcomeOfOther(await write.ended)
    const outcome = await this.#fill(work, key, write.node, source, lane.header, over)
    this.#writing.delete(write.node)
    if (outcome === OUTCOME_OK) {
      const leaf = files.leafOf(work.space, hexOf(work.batch.hashes, key))
      const keys = leaves.get(leaf)
      if (keys === undefined) leaves.set(leaf, [key])
      else keys.push(key)
    }
    write.end(outcome)
    return outcome
  }

  /** Forces the folders of new objects to the disk. Objects of a folder that fails are not reported as stored. */
  async sync(work: Writing, leaves: Leaves): Promise<void> {
    const syncs = [...leaves].map(async ([leaf, keys]) => {
      try {
        await this.#parts.files.syncFolder(leaf)
      } catch {
        for (const key of keys) work.outcomes[key] = OUTCOME_FAILED
        work.bytes -= keys.length * work.batch.space.shardBytes
      }
    })
    await Promise.all(syncs)
  }

  /** An outcome when there is nothing to write. Inside `alone`. */
  async #begin(work: Writing, key: number): Promise<Place | number> {
    const { index, remover } = this.#parts
    const { space, batch, hashes, parents } = work
    const known = index.find(space.id, hashes, key)
    if (index.isHeld(known)) return OUTCOME_OK
    const other = this.#writing.get(known)
    if (other !== undefined) return { write: other, isOwn: false, over: null }
    if (isOwnAncestor(index, space.id, hashes, parents, key)) return OUTCOME_FULL
    // No room for a chunk means none for what follows it: a child is worth nothing without its parent.
    const isRefused = work.fullKey === key - 1 && followsNeighbour(hashes, parents, key)
    const bytes = fileBytes(batch.space.shardBytes)
    const node = index.begin(space.id, hashes, parents, key, bytes)
    const room = isRefused ? null : await remover.makeRoom({ space: space.id, bytes })
    if (room === null) {
      work.fullKey = key
      index.cancel(node)
      return OUTCOME_FULL
    }
    const { promise, resolve } = Promise.withResolvers<number>()
    const write = { node, ended: promise, end: resolve }
    this.#writing.set(node, write)
    return { write, isOwn: true, over: room.over }
  }

  async #fill(work: Writing, key: number, node: number, source: Uint8Array, header: Buffer, over: string | null) {
    const { files, index, manifest, clock } = this.#parts
    const { batch, space } = work
    const hash = hexOf(batch.hashes, key)
    let outcome = OUTCOME_OK
    try {
      if (!work.format.encode(batch, key, source, header)) outcome = OUTCOME_CORRUPT
      else await files.write(space, hash, header, source, over)
    } catch (error) {
      outcome = isFull(error) ? OUTCOME_FULL : OUTCOME_FAILED
    }
    if (outcome !== OUTCOME_OK) {
      await files.discard(over) // its bytes count until then
      index.cancel(node)
      return outcome
    }
    index.publish(node)
    index.setStamp(node, clock.wallMs())
    const parent = hexOf(batch.parents, key)
    manifest.noteAdded({ space: space.digest, hash, parent, bytes: index.bytesOf(node) })
    work.bytes += source.length
    return outcome
  }
}
