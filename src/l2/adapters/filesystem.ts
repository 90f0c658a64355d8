import * as fsPromises from 'node:fs/promises'
import { assert } from '../../core/assert.ts'
import type { Clock } from '../../core/clock.ts'
import { CacheError } from '../../core/errors.ts'
import { pageMemory } from '../../native/page-memory.ts'
import { nativeFiles, type WholeFiles } from '../../native/whole-files.ts'
import {
  type AdapterUsage,
  type KeyBatch,
  type L2Adapter,
  type ObjectPage,
  OUTCOME_FAILED,
  OUTCOME_FULL,
  OUTCOME_OK,
  type QuotaChanges,
  type TenantUsage,
} from '../adapter.ts'
import { keyWords } from '../key-words.ts'
import { RecordFormats } from '../object-format.ts'
import { ObjectIndex } from '../object-index.ts'
import { objectPage } from '../object-pages.ts'
import { tenantsOf } from '../object-room.ts'
import type { FilesystemAdapterOptions } from '../options.ts'
import { SpaceTable } from '../space-table.ts'
import { DirectoryIndex } from './directory-index.ts'
import { type DirectoryLock, takeDirectory, unwritable } from './directory-lock.ts'
import { type Disk, isFull } from './disk.ts'
import { DiskFiles } from './disk-files.ts'
import { type Lane, Lanes } from './lanes.ts'
import { Manifest } from './manifest.ts'
import { ObjectFiles } from './object-files.ts'
import { hexOf, ObjectReader } from './object-reader.ts'
import { ObjectRemover } from './object-remover.ts'
import { type Leaves, ObjectWriter, type Writing } from './object-writer.ts'

export interface FilesystemParts {
  readonly clock: Clock
  /** Takes a file for this adapter alone until the process ends; null when it is taken. */
  readonly lock: (path: string) => DirectoryLock | null
  /** The machine's files when absent. */
  readonly disk?: Disk
  /** Moves the objects. When absent the addon does; without one, and beside a `disk`, its calls do. */
  readonly whole?: WholeFiles
}

/** How far the time of last use on the disk may lag behind. */
const STAMP_STEP_MS = 60_000
/** Lines of the manifest beyond twice the objects before it is written anew. */
const MANIFEST_SLACK_LINES = 4096

/**
 * Objects as files of one directory, crash-safe, with a capacity and leaf-first LRU eviction.
 *
 *   store: room (evict) -> tmp: a new file, or that of an evicted object -> datasync -> rename -> in the index
 *          -> sync of the folders -> manifest
 *   open:  lock -> delete tmp -> manifest -> every file's name and size against it -> evict down to the capacity
 *
 * Room is made before a byte is written, so published and half-written files never exceed the capacity.
 * Index changes that delete files run one at a time (`ObjectRemover.alone`); reads and writes of files run beside each other.
 */
export class FilesystemAdapter implements L2Adapter {
  readonly type = 'filesystem'
  readonly #options: FilesystemAdapterOptions
  readonly #parts: FilesystemParts
  readonly #storeLanes: Lanes
  readonly #loadLanes: Lanes
  readonly #scrubLanes: Lanes
  readonly #files: ObjectFiles
  readonly #manifest: Manifest
  readonly #directory: DirectoryIndex
  readonly #remover: ObjectRemover
  readonly #reader: ObjectReader
  readonly #writer: ObjectWriter
  readonly #spaces = new SpaceTable()
  readonly #index = new ObjectIndex(1024, this.#spaces)
  readonly #formats = new RecordFormats()
  readonly #running = new Set<Promise<unknown>>()
  #lock: DirectoryLock | undefined
  #isOpen = false

  constructor(options: FilesystemAdapterOptions, parts: FilesystemParts) {
    const disk = parts.disk ?? fsPromises
    this.#options = options
    this.#parts = parts
    this.#storeLanes = new Lanes(options.parallelism)
    this.#loadLanes = new Lanes(options.parallelism)
    this.#scrubLanes = new Lanes(2)
    this.#files = new ObjectFiles(disk, wholeFiles(parts), options)
    this.#manifest = new Manifest(disk, this.#files.manifestPath)
    this.#directory = new DirectoryIndex(this.#files, this.#manifest, this.#index, this.#spaces)
    this.#remover = new ObjectRemover({
      capacityBytes: options.capacityBytes,
      files: this.#files,
      manifest: this.#manifest,
      index: this.#index,
      directory: this.#directory,
      spaces: this.#spaces,
    })
    this.#reader = new ObjectReader({
      clock: parts.clock,
      files: this.#files,
      remover: this.#remover,
      index: this.#index,
    })
    this.#writer = new ObjectWriter({
      clock: parts.clock,
      files: this.#files,
      manifest: this.#manifest,
      index: this.#index,
      remover: this.#remover,
    })
  }

  /** @throws CacheError DATA_DIR_LOCKED, DATA_DIR_UNWRITABLE, L2_UNAVAILABLE */
  async open(): Promise<void> {
    this.#lock = await takeDirectory(this.#files, this.#parts.lock)
    try {
      await this.#files.prepare()
      await this.#directory.recover(this.#parts.clock.wallMs())
      this.#reader.checksumFailures += this.#directory.brokenFiles
      await this.#remover.alone(() => this.#remover.makeRoom())
      await this.#directory.compact()
    } catch (error) {
      this.#lock?.release()
      throw unwritable(this.#options.directory, error)
    }
    this.#isOpen = true
  }

  async lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    this.#check(signal)
    const space = this.#spaces.find(batch.space)
    const hashes = keyWords(batch.hashes)
    for (let key = 0; key < batch.count; key += 1) {
      found[key] = space !== undefined && this.#index.isHeld(this.#index.find(space.id, hashes, key)) ? 1 : 0
    }
  }

  store(batch: KeyBatch, sources: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal) {
    return this.#run(signal, async () => {
      const work = this.#workOf(batch, sources, outcomes)
      const leaves: Leaves = new Map()
      try {
        await this.#files.describe(work.space)
      } catch (error) {
        outcomes.fill(isFull(error) ? OUTCOME_FULL : OUTCOME_FAILED, 0, batch.count)
        return 0
      }
      await this.#storeLanes.run(batch.count, signal, async (key, lane) => {
        outcomes[key] = await this.#writer.write(work, key, sources[key]!, lane, leaves)
      })
      await this.#writer.sync(work, leaves)
      this.#index.refresh(work.space.id, work.hashes, work.parents, batch.count)
      await this.#flushManifest()
      return work.bytes
    })
  }

  load(batch: KeyBatch, targets: readonly Uint8Array[], outcomes: Uint8Array, signal: AbortSignal) {
    return this.#run(signal, async () => {
      const work = this.#workOf(batch, targets, outcomes)
      await this.#loadLanes.run(batch.count, signal, async (key, lane) => {
        outcomes[key] = await this.#loadOne(work, key, targets[key]!, lane)
      })
      this.#index.refresh(work.space.id, work.hashes, work.parents, batch.count)
      await this.#manifest.flush()
      return work.bytes
    })
  }

  remove(batch: KeyBatch, signal: AbortSignal): Promise<number> {
    return this.#run(signal, async () => {
      const space = this.#spaces.find(batch.space)
      if (space === undefined) return 0
      const hashes = keyWords(batch.hashes)
      return this.#remover.alone(() => {
        const nodes = Array.from({ length: batch.count }, (_, key) => this.#index.find(space.id, hashes, key))
        return this.#remover.deleteAll([...new Set(nodes)].filter((node) => this.#index.isHeld(node)))
      })
    })
  }

  clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number> {
    return this.#run(signal, () =>
      this.#remover.alone(() => this.#remover.deleteAll(this.#index.heldIn(this.#spaces.matching(filter)))),
    )
  }

  async list(cursor: string, countMax: number, signal: AbortSignal): Promise<ObjectPage> {
    this.#check(signal)
    return objectPage(this.#index, this.#spaces, cursor, countMax)
  }

  scrub(batch: KeyBatch, outcomes: Uint8Array, signal: AbortSignal) {
    return this.#run(signal, async () => {
      const work = this.#workOf(batch, [], outcomes)
      const scratch = new Map<Lane, Uint8Array>()
      await this.#scrubLanes.run(batch.count, signal, async (key, lane) => {
        const target = scratch.get(lane) ?? pageMemory(batch.space.shardBytes)
        scratch.set(lane, target)
        outcomes[key] = await this.#reader.read(work, key, target, lane)
        if (outcomes[key] === OUTCOME_OK) work.bytes += target.length
      })
      await this.#manifest.flush()
      return work.bytes
    })
  }

  setQuotas(changes: QuotaChanges, signal: AbortSignal): Promise<boolean> {
    return this.#run(signal, () =>
      this.#remover.alone(async () => {
        this.#remover.room.change(changes)
        await this.#remover.trimQuotas()
        return true
      }),
    )
  }

  async tenants(signal: AbortSignal): Promise<TenantUsage[]> {
    this.#check(signal)
    return tenantsOf(this.#index, this.#spaces)
  }

  usage(): AdapterUsage {
    return {
      bytes: this.#index.heldBytes,
      objects: this.#index.objects,
      capacityBytes: this.#options.capacityBytes,
      evictedObjects: this.#remover.room.evictedObjects,
      quotaEvictedObjects: this.#remover.room.quotaEvictedObjects,
      checksumFailures: this.#reader.checksumFailures,
    }
  }

  /** Waits for what is under way. */
  async close(): Promise<void> {
    if (!this.#isOpen) return
    this.#isOpen = false
    await Promise.allSettled(this.#running)
    await this.#remover.idle()
    await this.#directory.compact()
    this.#lock?.release()
  }

  /** Files found at open that are not ours, in no sum. */
  get unknownFiles(): number {
    return this.#directory.unknownFiles
  }

  /** Corrupt records kept for a look. */
  get quarantinedFiles(): number {
    return this.#files.quarantined
  }

  /** Checks the index: for tests. */
  verify(): void {
    this.#index.verify()
  }

  #check(signal: AbortSignal): void {
    if (!this.#isOpen) throw new CacheError('L2_UNAVAILABLE', 'the filesystem adapter is not open')
    if (signal.aborted) throw new CacheError('L2_TIMEOUT', 'the batch was given up before it began')
  }

  /** Runs an operation that `close` waits for. */
  async #run<T>(signal: AbortSignal, operation: () => Promise<T>): Promise<T> {
    this.#check(signal)
    const running = operation()
    this.#running.add(running)
    try {
      return await running
    } finally {
      this.#running.delete(running)
    }
  }

  #workOf(batch: KeyBatch, buffers: readonly Uint8Array[], outcomes: Uint8Array): Writing {
    for (const buffer of buffers)
      assert(buffer.length === batch.space.shardBytes, 'bytes of another length than the space')
    const space = this.#spaces.open(batch.space)
    outcomes.fill(OUTCOME_FAILED, 0, batch.count) // what an abort leaves undone
    return {
      batch,
      space,
      format: this.#formats.of(space),
      hashes: keyWords(batch.hashes),
      parents: keyWords(batch.parents),
      outcomes,
      bytes: 0,
      fullKey: -2,
    }
  }

  async #flushManifest(): Promise<void> {
    if (this.#manifest.lines > this.#index.objects * 2 + MANIFEST_SLACK_LINES && !this.#manifest.isBroken) {
      return this.#directory.compact()
    }
    return this.#manifest.flush()
  }

  async #loadOne(work: Writing, key: number, target: Uint8Array, lane: Lane): Promise<number> {
    const outcome = await this.#reader.read(work, key, target, lane)
    if (outcome === OUTCOME_OK) {
      work.bytes += target.length
      const path = this.#files.pathOf(work.space, hexOf(work.batch.hashes, key))
      await this.#stamp(this.#index.find(work.space.id, work.hashes, key), path)
    }
    return outcome
  }

  async #stamp(node: number, path: string): Promise<void> {
    const nowMs = this.#parts.clock.wallMs()
    if (!this.#index.isHeld(node) || nowMs - this.#index.stampOf(node) < STAMP_STEP_MS) return
    this.#index.setStamp(node, nowMs)
    await this.#files.stamp(path, nowMs)
  }
}

function wholeFiles({ disk, whole }: FilesystemParts): WholeFiles {
  return whole ?? (disk === undefined ? nativeFiles() : null) ?? new DiskFiles(disk ?? fsPromises)
}
