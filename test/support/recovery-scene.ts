import { expect } from 'vitest'
import { ManualClock } from '../../src/core/clock.ts'
import { CounterTable } from '../../src/core/counters.ts'
import { type LeaseId, NO_LEASE, type SpaceId } from '../../src/core/ids.ts'
import { L1_FIELDS, L1_TENANT_FIELDS } from '../../src/events/counters.ts'
import { RETRIEVE_COPY, STORE_COPY } from '../../src/l1/copy-log.ts'
import { L1Cache } from '../../src/l1/l1-cache.ts'
import { mappedTableBytes, mapTables } from '../../src/l1/l1-tables.ts'
import { ModelParts, partShape } from '../../src/l1/model-parts.ts'
import type { L1Options } from '../../src/l1/options.ts'
import { surveyTables } from '../../src/l1/recovery-survey.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { fusedTables, StoreFuse } from './killed-tables.ts'
import { chainOf, SMALL_L1, TENANT_ROWS } from './l1.ts'
import { anyPath, type L1Shape, modelOf, openSpaces } from './l1-shapes.ts'
import { random } from './random.ts'

export const TTL = 50
export const OWNERS = 4
/** Owners below this one are workers, which live on when the engine dies. */
export const WORKERS = 3

/** A copy that was granted, by an engine that may be dead by now. */
export interface Copy {
  readonly owner: number
  readonly lease: LeaseId
  /** In the log of copies; -1 = none. */
  readonly row: number
  readonly places: readonly { offset: number; bytes: Uint8Array }[]
}

/**
 * An engine that is killed at any store to its tables, and workers that go on copying. The bytes of a chunk follow from
 * its name, so what any lookup finds can be judged without a record of what was done.
 */
export class Scene {
  readonly clock = new ManualClock()
  readonly fuse = new StoreFuse()
  readonly arena: Uint8Array
  readonly options: L1Options
  readonly shape: L1Shape
  readonly next: (limit: number) => number
  readonly tables: ReturnType<typeof mapTables>
  readonly startMs = this.clock.nowMs()
  readonly grants = new SlotList()
  moves = 0
  /** The engine is killed at the next move of bytes, or right after it. */
  aimsAtMove = false
  /** Whether the last step, if it was killed, may have taken chunks away. */
  isTaking = false
  cache!: L1Cache
  spaces: SpaceId[] = []
  writers: Copy[] = []
  readers: Copy[] = []

  constructor(shape: L1Shape, policy: L1Options['policy'], seed: number) {
    this.shape = shape
    this.options = { ...SMALL_L1, ...shape.options, policy }
    this.arena = new Uint8Array(this.options.capacityBytes)
    this.next = random(seed)
    this.tables = mapTables(this.options, new Uint8Array(new ArrayBuffer(mappedTableBytes(this.options))))
    this.open()
  }

  open(): void {
    const { clock, startMs } = this
    this.cache = new L1Cache(this.options, {
      clock,
      startMs,
      events: { publish() {}, enqueue() {}, flush() {} },
      tenants: new CounterTable(L1_TENANT_FIELDS, TENANT_ROWS),
      totals: new CounterTable(L1_FIELDS, 1),
      tables: fusedTables(this.tables, this.fuse),
      hashKey: [this.next(1000), this.next(1000)],
      move: (from, to, bytes) => {
        this.moves += 1
        if (this.aimsAtMove) this.fuse.left = this.next(2)
        this.aimsAtMove = false
        this.fuse.burn() // the bytes count as a store, too
        this.arena.copyWithin(to, from, from + bytes)
      },
    })
    this.spaces = openSpaces(this.cache, this.shape)
  }

  /** What is left of the engine is opened again; the workers below `WORKERS` have not noticed. */
  restart(stores = Number.POSITIVE_INFINITY): void {
    this.fuse.left = stores
    this.writers = this.writers.filter(({ owner }) => owner < WORKERS)
    if (!this.tryRestart()) throw new Error('the tables are damaged')
  }

  /** As `restart`; false when the survey finds damage. */
  tryRestart(): boolean {
    const parts = new ModelParts(partShape(this.options))
    const spaces = this.shape.spaces.map((space) => ({ ...space, part: parts.take(modelOf(space)) }))
    const survey = surveyTables(this.tables, this.options, spaces, (owner) => owner < WORKERS)
    if (typeof survey === 'string') return false
    this.open()
    this.cache.recover(survey)
    return true
  }

  bytesOf(space: SpaceId, path: readonly number[], rank: number): Uint8Array {
    const { shardBytes } = this.cache.spaces.spec(space)
    const chain = chainOf(path)
    const seed = chain.words[(path.length - 1) * 8]! ^ ((space + 1) * 7919) ^ ((rank + 1) * 104_729)
    return Uint8Array.from({ length: shardBytes }, (_, at) => (Math.imul(seed, at + 3) >>> 11) & 255)
  }

  anySpace(): SpaceId {
    return this.spaces[this.next(this.spaces.length)]!
  }

  reserve(): void {
    const space = this.anySpace()
    const path = anyPath(this.next)
    const rank = this.next(this.cache.spaces.spec(space).ranks)
    const owner = this.next(OWNERS)
    const during = owner < WORKERS ? 'store' : 'load'
    const { grants } = this
    const lease = this.cache.reserve(space, rank, chainOf(path), 0, path.length, owner, TTL, during, grants)
    if (lease === NO_LEASE) return
    const places = Array.from({ length: grants.count }, (_, row) => ({
      offset: grants.offset[row]!,
      bytes: this.bytesOf(space, path.slice(0, grants.chainIndex[row]! + 1), rank),
    }))
    const row = owner < WORKERS ? this.cache.copies.begin(STORE_COPY, owner, 1, lease) : -1
    this.writers.push({ owner, lease, row, places })
  }

  commit(): void {
    const [writer] = this.writers.splice(this.next(Math.max(1, this.writers.length)), 1)
    if (writer === undefined) return
    for (const { offset, bytes } of writer.places) this.arena.set(bytes, offset)
    if (writer.row >= 0) this.cache.copies.end(writer.row)
    this.cache.commit(writer.lease)
  }

  scribble(): void {
    for (const { places } of this.writers) {
      for (const { offset, bytes } of places) this.arena[offset + this.next(bytes.length)] = this.next(256)
    }
  }

  lookup(): void {
    const space = this.anySpace()
    const path = anyPath(this.next)
    const run = this.cache.residentRun(space, chainOf(path), 0, path.length)
    if (run === 0) return
    const owner = this.next(OWNERS)
    const kind = owner >= WORKERS && this.next(2) === 0 ? 'internal' : 'read'
    const lease = this.cache.lease(space, chainOf(path), 0, run, kind, owner, TTL)
    if (lease === NO_LEASE) return
    if (owner >= WORKERS) {
      if (this.next(2) === 0) this.cache.release(lease)
      return
    }
    const slots = new SlotList()
    this.cache.beginCopy(lease)
    const row = this.cache.copies.begin(RETRIEVE_COPY, owner, 1, lease)
    this.cache.slots(lease, -1, 0, run, slots)
    const places = Array.from({ length: slots.count }, (_, row) => ({
      offset: slots.offset[row]!,
      bytes: this.bytesOf(space, path.slice(0, slots.chainIndex[row]! + 1), slots.rank[row]!),
    }))
    if (places.length > 0) this.readers.push({ owner, lease, row, places })
  }

  endRead(): void {
    const [reader] = this.readers.splice(this.next(Math.max(1, this.readers.length)), 1)
    if (reader === undefined) return
    this.checkReader(reader)
    this.cache.copies.end(reader.row)
    this.cache.endCopy(reader.lease)
    this.cache.release(reader.lease)
  }

  /** A worker says that it copies nothing any more. */
  endWorker(): void {
    const owner = this.next(WORKERS)
    this.writers = this.writers.filter((writer) => writer.owner !== owner)
    this.readers = this.readers.filter((reader) => reader.owner !== owner)
    this.forget(owner)
  }

  forget(owner: number): void {
    for (const { row, kind, lease } of this.cache.copies.listOf(owner)) {
      this.cache.copies.end(row)
      if (kind === STORE_COPY) this.cache.abort(lease)
      else this.cache.endCopy(lease)
    }
  }

  /** One thing that may happen. @returns whether it may take chunks away that can be found. */
  step(): boolean {
    const keeping = [
      () => this.commit(),
      () => this.commit(),
      () => this.commit(),
      () => this.lookup(),
      () => this.lookup(),
      () => this.endRead(),
      () => this.clock.advance(this.next(TTL / 4)),
      () => void this.cache.sweepLeases(),
      () => {
        if (this.next(4) === 0) this.endWorker()
      },
    ]
    const taking = [
      () => this.reserve(),
      () => this.reserve(),
      () => this.reserve(),
      () => void this.cache.evictTo(this.next(Math.ceil(this.cache.usageBytes) + 1), 1 + this.next(3)),
      () => {
        const path = anyPath(this.next)
        if (this.next(4) !== 0) return
        this.cache.remove({ space: this.anySpace(), chain: chainOf(path), from: 0, to: path.length }, 'delete')
      },
    ]
    const at = this.next(keeping.length + taking.length)
    this.isTaking = at >= keeping.length
    if (this.isTaking) taking[at - keeping.length]!()
    else keeping[at]!()
    return this.isTaking
  }

  /** Every name that can be found has its own bytes; readers still see theirs. */
  check(): void {
    this.scribble()
    for (const [space, path] of this.names()) {
      const chain = chainOf(path)
      const slots = new SlotList()
      const lease = this.cache.lease(space, chain, path.length - 1, path.length, 'internal', 0, TTL)
      if (lease === NO_LEASE) continue
      this.cache.slots(lease, -1, path.length - 1, path.length, slots)
      for (let row = 0; row < slots.count; row += 1) {
        const offset = slots.offset[row]!
        const found = this.arena.subarray(offset, offset + slots.length[row]!)
        expect(found, `${path} of space ${space}`).toEqual(this.bytesOf(space, path, slots.rank[row]!))
      }
      this.cache.release(lease)
    }
    for (const reader of this.readers) this.checkReader(reader)
  }

  resident(): Set<string> {
    const found = new Set<string>()
    for (const [space, path] of this.names()) found.add(`${space}:${path}`)
    return found
  }

  checkReader({ places }: Copy): void {
    for (const { offset, bytes } of places) {
      expect(this.arena.subarray(offset, offset + bytes.length), 'what a reader copies').toEqual(bytes)
    }
  }

  /** Every path that can be found, with its key space. */
  *names(): Generator<[SpaceId, number[]]> {
    for (const space of this.spaces) {
      const paths: number[][] = [[]]
      for (let at = 0; at < paths.length; at += 1) {
        for (let name = 0; name < 3; name += 1) {
          const path = [...paths[at]!, name]
          if (this.cache.residentRun(space, chainOf(path), at === 0 ? 0 : path.length - 1, path.length) === 0) continue
          paths.push(path)
          yield [space, path]
        }
      }
    }
  }
}
