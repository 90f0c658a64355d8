import { HASH_BYTES } from '../../core/hash-chain.ts'
import { keyWords } from '../key-words.ts'
import { NO_NODE, type ObjectIndex } from '../object-index.ts'
import { isOwnAncestor } from '../own-ancestor.ts'
import { sortByStamp } from '../sort-by-stamp.ts'
import type { SpaceEntry, SpaceTable } from '../space-table.ts'
import { readObjectHeader, type ScannedFile, scanFiles, scanSpaces } from './directory-scan.ts'
import type { Manifest, ManifestEntry } from './manifest.ts'
import type { ObjectFiles } from './object-files.ts'

/** A file that was found unusable at open, and where. */
type BrokenFile = ScannedFile

/** The object index of a directory: brought back at open from manifest and files, written out as a manifest. */
export class DirectoryIndex {
  readonly #files: ObjectFiles
  readonly #manifest: Manifest
  readonly #index: ObjectIndex
  readonly #spaces: SpaceTable
  #unknownFiles = 0
  #brokenFiles = 0

  constructor(files: ObjectFiles, manifest: Manifest, index: ObjectIndex, spaces: SpaceTable) {
    this.#files = files
    this.#manifest = manifest
    this.#index = index
    this.#spaces = spaces
  }

  /** Files at open that are not ours: left alone, and in no sum. */
  get unknownFiles(): number {
    return this.#unknownFiles
  }

  /** Files at open that are no whole objects of ours although they are named so: quarantined. */
  get brokenFiles(): number {
    return this.#brokenFiles
  }

  /** 64 hex digits of a node's hash. */
  hashOf(node: number): string {
    return hexOf(this.#index.hashOf(node))
  }

  /**
   * Fills the index: what the manifest says, where a file of the right length agrees; and files that it does not
   * know, when their header is right. Afterwards the index holds exactly the object files of the directory.
   */
  async recover(wallMs: number): Promise<void> {
    for (const node of this.#index.held()) this.#index.setStamp(node, 0) // of an earlier opening
    const undescribed: SpaceEntry[] = []
    this.#unknownFiles += scanSpaces(this.#files.objects, this.#spaces, (entry) => undescribed.push(entry))
    for (const entry of undescribed) await this.#files.describe(entry).catch(() => undefined)
    await this.#replayManifest()
    const broken: BrokenFile[] = []
    for (const space of [...this.#spaces.entries]) {
      this.#unknownFiles += await scanFiles(this.#files.objects, space, (file) => {
        if (!this.#admit(file)) broken.push(file)
      })
    }
    for (const node of this.#index.held()) if (this.#index.stampOf(node) === 0) this.#drop(node)
    for (const { path, space, hash } of broken) await this.#files.quarantine(path, space.digest, hash, wallMs)
    this.#brokenFiles = broken.length
    sortByStamp(this.#index)
  }

  /** Writes the manifest anew. */
  compact(): Promise<void> {
    return this.#manifest.rewrite(this.#index.held().map((node) => this.#entryOf(node)))
  }

  #entryOf(node: number): ManifestEntry {
    const space = this.#spaces.byId(this.#index.spaceOf(node)).digest
    const parent = hexOf(this.#index.parentHashOf(node))
    return { space, hash: this.hashOf(node), parent, bytes: this.#index.bytesOf(node) }
  }

  async #replayManifest(): Promise<void> {
    const byDigest = new Map(this.#spaces.entries.map((entry) => [entry.digest, entry]))
    await this.#manifest.replay(
      ({ space, hash, parent, bytes }) => {
        const entry = byDigest.get(space)
        if (entry !== undefined) this.#add(entry, wordsOf(hash), wordsOf(parent), bytes)
      },
      (space, hash) => {
        const entry = byDigest.get(space)
        const node = entry === undefined ? 0 : this.#index.find(entry.id, wordsOf(hash), 0)
        if (this.#index.isHeld(node)) this.#drop(node)
      },
    )
  }

  /** False when the file is no object. */
  #admit(file: ScannedFile): boolean {
    const words = wordsOf(file.hash)
    let node = this.#index.find(file.space.id, words, 0)
    if (!this.#index.isHeld(node) || this.#index.bytesOf(node) !== file.bytes) {
      const header = readObjectHeader(file)
      if (header === undefined) return false
      if (this.#index.isHeld(node)) this.#drop(node)
      node = this.#add(file.space, words, keyWords(header.parent), file.bytes)
      if (node === NO_NODE) return false
    }
    this.#index.setStamp(node, Math.max(1, file.mtimeMs))
    return true
  }

  /** @returns the node of an object; NO_NODE when it has no place in the index. */
  #add(space: SpaceEntry, hash: Uint32Array, parent: Uint32Array, bytes: number): number {
    const known = this.#index.find(space.id, hash, 0)
    if (this.#index.isHeld(known)) return known
    if (isOwnAncestor(this.#index, space.id, hash, parent, 0)) return NO_NODE
    const node = this.#index.begin(space.id, hash, parent, 0, bytes)
    this.#index.publish(node)
    return node
  }

  #drop(node: number): void {
    this.#index.leave(node)
    this.#index.gone(node)
  }
}

function hexOf(words: Uint32Array): string {
  return Buffer.from(words.buffer, words.byteOffset, HASH_BYTES).toString('hex')
}

function wordsOf(hex: string): Uint32Array {
  return keyWords(Uint8Array.from(Buffer.from(hex, 'hex')))
}
