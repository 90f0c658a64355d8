import { randomUUID } from 'node:crypto'
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Logger } from 'pino'
import type { ServeConfig } from '../config/load-config.ts'
import { formatBytes } from '../config/units.ts'
import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import type { TenantId } from '../core/ids.ts'
import { KeySpaces } from '../l1/key-spaces.ts'
import { type L1Tables, mappedTableBytes, mapTables } from '../l1/l1-tables.ts'
import { PARTS_MAX, partShape } from '../l1/model-parts.ts'
import { type Survey, surveyTables } from '../l1/recovery-survey.ts'
import { capability } from '../native/capability.ts'
import { openParts, type PartedSegment, partName, reopenParts } from '../native/segment-parts.ts'
import {
  openSegment,
  privateSegment,
  removeSegment,
  reopenSegment,
  type SharedSegment,
} from '../native/shared-memory.ts'
import { bootIdOf, headerFor, readHeader, type TableHeader, whyForeign, writeHeader } from './table-header.ts'
import { type JournalContents, WarmJournal } from './warm-journal.ts'

/** Bytes in front of the tables, for what they are. */
const HEADER_BYTES = 4096
const IDENTITY = 'l1-memory.json'
const NOTHING: JournalContents = { parts: [], spaces: [], models: [], workers: [] }

/** What is left to take over of the engine before this one. */
export interface Leftover {
  readonly contents: JournalContents
  readonly survey: Survey
}

/** L1's memory, and the tables that say what lies in it. */
export interface L1Memory {
  readonly segment: SharedSegment
  /** By part of L1: what other processes map. */
  readonly segments: readonly SharedSegment[]
  /** Undefined = on the heap: nothing outlives this process. */
  readonly tables?: L1Tables
  /** Reading of the clock from which stamps in the tables count. */
  readonly startMs?: number
  readonly journal: WarmJournal | null
  /** Null = L1 is empty. */
  readonly leftover: Leftover | null
  /** Lets go of it. It stays for the next engine. */
  close(): void
}

export interface L1MemoryParts {
  readonly config: ServeConfig
  readonly clock: Clock
  readonly logger: Logger
  /** The data directory, and the name of the segment that belongs to it. */
  readonly dataDir: string
  readonly name: string
  /** Lays the tables; in tests, so that stores to them can be counted. */
  readonly layTables?: typeof mapTables
  readonly onProgress?: (bytesDone: number, bytes: number) => void
}

/** Which segment belongs to a data directory. */
interface Identity {
  readonly uuid: string
  readonly bootId: string
  /** Of the segment: its size is the default of the next start. */
  readonly name: string
  readonly bytes: number
}

/** Why an earlier engine's L1 is not taken over, in words that follow "L1 starts cold: ". */
class ColdStart extends Error {}

/**
 * Opens L1's memory: that of the engine before, when it is this data directory's, whole, and fits these options; else
 * new memory, and a line in the log that says why.
 *
 *   DATA_DIR/l1-memory.json   uuid and boot id: which segment it is, and whether it can still be there
 *   NAME                      the segment: the bytes of L1, mapped by workers; NAME.p0, NAME.p1, ... when it is in parts
 *   NAME.index                header, then the tables, mapped by the engine
 *   NAME.journal              the names behind their numbers
 *
 * The last three lie in shared memory: a restart of the machine takes all of them.
 *
 * @throws CacheError SHARED_MEMORY_*
 */
export async function openL1Memory(parts: L1MemoryParts): Promise<L1Memory> {
  if (!capability().sharedMemory.available) {
    const segment = privateSegment(parts.config.l1.capacityBytes)
    const segments = Array.from({ length: partShape(parts.config.l1).count }, () => segment)
    return { segment, segments, journal: null, leftover: null, close: () => segment.close() }
  }
  return await new L1MemoryOpener(parts).open()
}

class L1MemoryOpener {
  readonly #parts: L1MemoryParts
  readonly #directory = '/dev/shm'

  constructor(parts: L1MemoryParts) {
    this.#parts = parts
  }

  async open(): Promise<L1Memory> {
    const { dataDir, logger } = this.#parts
    const identity = readIdentity(dataDir)
    if (identity !== undefined) {
      try {
        return await this.#takeOver(identity)
      } catch (error) {
        if (!(error instanceof ColdStart)) throw error
        logger.warn(`L1 starts cold: ${error.message}`)
      }
    }
    return await this.#create()
  }

  get #tableBytes(): number {
    return HEADER_BYTES + mappedTableBytes(this.#parts.config.l1)
  }

  get #partCount(): number {
    return partShape(this.#parts.config.l1).count
  }

  get #isParted(): boolean {
    return this.#parts.config.l1.isolation === 'model'
  }

  get #journalPath(): string {
    return join(this.#directory, `${this.#parts.name}.journal`)
  }

  async #takeOver(identity: Identity): Promise<L1Memory> {
    const { config, name, clock } = this.#parts
    if (identity.bootId !== bootIdOf()) {
      throw new ColdStart('the machine was restarted since, and shared memory does not outlive that')
    }
    const header = readHeader(join(this.#directory, `${name}.index`))
    if (typeof header === 'string') throw new ColdStart(header)
    const why = whyForeign(header, headerFor(config, identity.uuid, header), clock.nowMs())
    if (why !== undefined) throw new ColdStart(why)
    const contents = WarmJournal.read(this.#journalPath, identity.uuid)
    if (contents === undefined) throw new ColdStart('the list of its key spaces is gone')
    const partOf = partsOf(contents, this.#partCount)
    if (partOf === undefined || !areSpaces(contents, config.engine.chunkTokens))
      throw new ColdStart('the list of its key spaces is damaged')
    const index = await this.#reopen(`${name}.index`, this.#tableBytes, header.indexInode)
    const opened: SharedSegment[] = [index]
    try {
      const tables = this.#layTables(index)
      const owners = new Set(contents.workers.map(({ owner }) => owner))
      const spaces = contents.spaces.map((space) => ({ ...space, part: partOf(space.model) }))
      const survey = surveyTables(tables, config.l1, spaces, (owner) => owners.has(owner))
      if (typeof survey === 'string') throw new ColdStart(`its tables are damaged: ${survey}`)
      const segment = await this.#reopenArena(header.segmentInode)
      opened.push(segment)
      return this.#memory(segment, index, tables, header, { contents, survey })
    } catch (error) {
      for (const segment of opened) segment.close()
      throw error
    }
  }

  async #create(): Promise<L1Memory> {
    const { config, name, dataDir, clock, onProgress } = this.#parts
    const { capacityBytes } = config.l1
    rmSync(join(dataDir, IDENTITY), { force: true })
    rmSync(this.#journalPath, { force: true })
    const progress = onProgress === undefined ? {} : { onProgress: (done: number) => onProgress(done, capacityBytes) }
    this.#removeOtherShapes()
    const options = { name, bytes: capacityBytes, replaceStale: true, ...progress }
    const segment = this.#isParted
      ? await openParts({ ...options, count: this.#partCount })
      : await openSegment(options)
    try {
      const index = await this.#createIndex()
      if (index === null) return withoutTables(segment)
      const facts = { segmentInode: segment.inode, indexInode: index.inode, startMs: clock.nowMs() }
      const header = headerFor(config, randomUUID(), facts)
      writeHeader(index.memory.subarray(0, HEADER_BYTES), header)
      const { uuid, bootId } = header
      writeIdentity(dataDir, { uuid, bootId, name, bytes: capacityBytes })
      return this.#memory(segment, index, this.#layTables(index), header, null)
    } catch (error) {
      segment.unlink()
      segment.close()
      throw error
    }
  }

  /** Null when shared memory has no room for the tables: the engine serves all the same. */
  async #createIndex(): Promise<SharedSegment | null> {
    const { name, logger } = this.#parts
    try {
      return await openSegment({ name: `${name}.index`, bytes: this.#tableBytes, replaceStale: true })
    } catch (error) {
      if (!(error instanceof CacheError) || error.code !== 'SHARED_MEMORY_TOO_SMALL') throw error
      const room = formatBytes(this.#tableBytes)
      logger.warn(`L1 will not outlive this engine: its tables need ${room} more of shared memory; lower --l1-size`)
      return null
    }
  }

  #memory(
    segment: SharedSegment,
    index: SharedSegment,
    tables: L1Tables,
    { uuid, startMs }: TableHeader,
    leftover: Leftover | null,
  ): L1Memory {
    const { logger } = this.#parts
    const journal = WarmJournal.create(this.#journalPath, uuid, leftover?.contents ?? NOTHING, (error) =>
      logger.warn({ err: error }, 'what comes new to L1 from here on will not outlive this engine'),
    )
    const close = () => {
      journal.close()
      index.close()
      segment.close()
    }
    return { segment, segments: partsIn(segment), tables, startMs, journal, leftover, close }
  }

  /** Segments that an engine with other options left under names that this one does not use. */
  #removeOtherShapes(): void {
    const { name } = this.#parts
    const others = Array.from({ length: PARTS_MAX }, (_, part) => partName(name, part))
    const stale = this.#isParted ? [name, ...others.slice(this.#partCount)] : others
    for (const one of stale) {
      try {
        removeSegment(one)
      } catch (error) {
        if (!(error instanceof CacheError)) throw error // what is not this user's is in nobody's way here
      }
    }
  }

  async #reopenArena(inode: string): Promise<SharedSegment> {
    const { name, config, onProgress } = this.#parts
    const { capacityBytes: bytes } = config.l1
    if (!this.#isParted) return await this.#reopen(name, bytes, inode, onProgress)
    const progress = onProgress === undefined ? {} : { onProgress: (done: number) => onProgress(done, bytes) }
    const parts = await reopenParts({ name, bytes, count: this.#partCount, inode, ...progress })
    if (typeof parts === 'string') throw new ColdStart(parts)
    return parts
  }

  #layTables(index: SharedSegment): L1Tables {
    const { layTables = mapTables, config } = this.#parts
    return layTables(config.l1, index.memory.subarray(HEADER_BYTES))
  }

  async #reopen(
    name: string,
    bytes: number,
    inode: string,
    onProgress?: (bytesDone: number, bytes: number) => void,
  ): Promise<SharedSegment> {
    const progress = onProgress === undefined ? {} : { onProgress: (done: number) => onProgress(done, bytes) }
    const segment = await reopenSegment({ name, bytes, inode, ...progress })
    if (typeof segment === 'string') throw new ColdStart(segment)
    return segment
  }
}

/** Whether the key spaces can be opened as they are listed. */
function areSpaces({ spaces }: JournalContents, chunkTokens: number): boolean {
  const scratch = new KeySpaces()
  try {
    return spaces.every((space, id) => {
      if (space.isAfterRetirement === true) scratch.retire(space.model, space.ranks)
      return scratch.open({ ...space, chunkTokens, tenant: 0 as TenantId }) === id
    })
  } catch (error) {
    if (error instanceof CacheError) return false
    throw error
  }
}

/** The part of L1 of a model; undefined when the list of parts is damaged. */
function partsOf({ parts, spaces }: JournalContents, count: number): ((model: string) => number) | undefined {
  if (count === 1) return () => 0
  const isWhole = parts.length <= count && new Set(parts).size === parts.length
  return isWhole && spaces.every(({ model }) => parts.includes(model)) ? (model) => parts.indexOf(model) : undefined
}

function partsIn(segment: SharedSegment | PartedSegment): readonly SharedSegment[] {
  return 'parts' in segment ? segment.parts : [segment]
}

function withoutTables(segment: SharedSegment): L1Memory {
  const close = () => {
    segment.unlink()
    segment.close()
  }
  return { segment, segments: partsIn(segment), journal: null, leftover: null, close }
}

function readIdentity(dataDir: string): Identity | undefined {
  try {
    return JSON.parse(readFileSync(join(dataDir, IDENTITY), 'utf8')) as Identity
  } catch {
    return undefined
  }
}

function writeIdentity(dataDir: string, identity: Identity): void {
  const path = join(dataDir, IDENTITY)
  writeFileSync(`${path}.tmp`, `${JSON.stringify(identity)}\n`, { mode: 0o600 })
  renameSync(`${path}.tmp`, path)
}
