import { closeSync, constants, openSync, readFileSync, readSync } from 'node:fs'
import type { ServeConfig } from '../config/load-config.ts'
import { formatBytes } from '../config/units.ts'
import { assert } from '../core/assert.ts'

/** Changes with the layout of any table, or with what its fields mean. */
const VERSION = 2
const MAGIC = 'KVTIERL1'
const HEADER_BYTES = 4096

/** Whose tables they are, and what they were laid out for: text at the start of the file, before the tables. */
export interface TableHeader {
  readonly version: number
  readonly uuid: string
  readonly bootId: string
  readonly segmentInode: string
  readonly indexInode: string
  /** Reading of the machine's monotonic clock from which stamps count. */
  readonly startMs: number
  /** Options that the tables depend on, by flag. */
  readonly options: Readonly<Record<string, number>>
}

/** The header of tables for these options. */
export function headerFor(
  { l1, engine }: ServeConfig,
  uuid: string,
  facts: Pick<TableHeader, 'segmentInode' | 'indexInode' | 'startMs'>,
): TableHeader {
  const { segmentInode, indexInode, startMs } = facts
  const options = {
    '--l1-size': l1.capacityBytes,
    '--chunk-tokens': engine.chunkTokens,
    '--l1-extent-size': l1.extentBytes,
    '--l1-index-chunks': l1.indexCapacityChunks,
    '--l1-index-shards': l1.indexCapacityShards,
    '--l1-leases': l1.leaseCapacity,
    '--l1-lease-entries': l1.leaseEntryCapacity,
    ...(l1.isolation === 'model' ? { '--l1-isolation-models': l1.isolationModels } : {}),
  }
  return { version: VERSION, uuid, bootId: bootIdOf(), segmentInode, indexInode, startMs, options }
}

/** Why tables with the header `found` are not those that `wanted` describes; undefined when they are. */
export function whyForeign(found: TableHeader, wanted: TableHeader, nowMs: number): string | undefined {
  if (found.version !== wanted.version) return 'another version of kvtier wrote its tables'
  if (found.uuid !== wanted.uuid) return 'its tables are those of another data directory'
  if (found.bootId !== wanted.bootId) return 'the machine was restarted since'
  if (!(found.startMs <= nowMs)) return 'the clock of this machine went back'
  const isolated = (header: TableHeader) => ('--l1-isolation-models' in header.options ? 'model' : 'none')
  if (isolated(found) !== isolated(wanted)) return `--l1-isolation is ${isolated(wanted)} and was ${isolated(found)}`
  for (const [flag, value] of Object.entries(wanted.options)) {
    const before = found.options[flag]
    if (before === value) continue
    const show = flag.endsWith('-size') ? formatBytes : String
    return `${flag} is ${show(value)} and was ${before === undefined ? 'unknown' : show(before)}`
  }
  return undefined
}

/** @param page the first HEADER_BYTES of the file. */
export function writeHeader(page: Uint8Array, header: TableHeader): void {
  const text = Buffer.from(`${MAGIC}${JSON.stringify(header)}`)
  assert(text.length < HEADER_BYTES, 'a header longer than its page')
  page.fill(0)
  page.set(text)
}

/** The header of a file, or why there is none. */
export function readHeader(path: string): TableHeader | string {
  const page = Buffer.alloc(HEADER_BYTES)
  try {
    const fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW)
    try {
      readSync(fd, page, 0, HEADER_BYTES, 0)
    } finally {
      closeSync(fd)
    }
  } catch (error) {
    return `its tables cannot be read (${(error as NodeJS.ErrnoException).code ?? error})`
  }
  const end = page.indexOf(0)
  const text = page.toString('utf8', 0, end < 0 ? HEADER_BYTES : end)
  if (!text.startsWith(MAGIC)) return 'its tables were not finished'
  try {
    return JSON.parse(text.slice(MAGIC.length)) as TableHeader
  } catch {
    return 'its tables are damaged: the header cannot be read'
  }
}

/** Names this run of the machine: shared memory lasts as long. */
export function bootIdOf(): string {
  return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
}
