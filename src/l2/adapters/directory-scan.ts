import { closeSync, openSync, readdirSync, readFileSync, readSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { KeySpace } from '../adapter.ts'
import { HEADER_BYTES, type RecordHeader, readHeader } from '../object-format.ts'
import { type SpaceEntry, type SpaceTable, spaceDigest } from '../space-table.ts'
import { errorCode } from './disk.ts'
import { fileBytes } from './object-files.ts'

/** A file that lies where an object should. */
export interface ScannedFile {
  readonly space: SpaceEntry
  readonly hash: string
  readonly path: string
  readonly bytes: number
  readonly mtimeMs: number
}

const FANOUT = '0123456789abcdef'

/**
 * Finds the spaces of a directory. One whose description is lost is known again from the header of any of its
 * objects; `describe` is told, to write it anew.
 *
 * @returns folders that are not spaces: they are left alone.
 */
export function scanSpaces(objects: string, spaces: SpaceTable, describe: (entry: SpaceEntry) => void): number {
  let unknown = 0
  for (const digest of readdirSync(objects)) {
    const folder = join(objects, digest)
    const described = readDescription(join(folder, 'space.json'))
    if (described !== undefined && spaceDigest(described) === digest) {
      spaces.open(described)
      continue
    }
    const recovered = spaceOfAnyObject(folder, digest)
    if (recovered === undefined) unknown += 1
    else describe(spaces.open(recovered))
  }
  return unknown
}

/**
 * Visits every file of a space, a leaf directory at a time, and lets other work in between. The calls are synchronous:
 * a million promises would take far longer than a million stats.
 *
 * @returns files that are not objects by name: they are left alone and not counted.
 */
export async function scanFiles(objects: string, space: SpaceEntry, visit: (file: ScannedFile) => void) {
  let unknown = 0
  for (const high of FANOUT) {
    for (const low of FANOUT) {
      const leaf = join(objects, space.digest, high, low)
      for (const name of namesIn(leaf)) {
        const path = join(leaf, name)
        const stat = isHash(name, high, low) ? statSync(path, { throwIfNoEntry: false }) : undefined
        if (stat?.isFile()) visit({ space, hash: name, path, bytes: stat.size, mtimeMs: stat.mtimeMs })
        else unknown += 1
      }
    }
    await setImmediate()
  }
  return unknown
}

/** The header of a file that is, by header, name, space and length, the object it should be; else undefined. */
export function readObjectHeader(file: ScannedFile): RecordHeader | undefined {
  const header = headerOf(file.path)
  if (header === undefined || file.bytes !== fileBytes(file.space.space.shardBytes)) return undefined
  const isHere = Buffer.from(header.hash).toString('hex') === file.hash
  return isHere && spaceDigest(header.space) === file.space.digest ? header : undefined
}

function headerOf(path: string): RecordHeader | undefined {
  const bytes = Buffer.alloc(HEADER_BYTES)
  let descriptor: number | undefined
  try {
    descriptor = openSync(path, 'r')
    const length = readSync(descriptor, bytes, 0, HEADER_BYTES, 0)
    const header = readHeader(bytes.subarray(0, length))
    return typeof header === 'string' ? undefined : header
  } catch {
    return undefined
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

function readDescription(path: string): KeySpace | undefined {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return typeof value === 'object' && value !== null ? (value as KeySpace) : undefined
  } catch {
    return undefined
  }
}

function spaceOfAnyObject(folder: string, digest: string): KeySpace | undefined {
  for (const high of FANOUT) {
    for (const low of FANOUT) {
      const leaf = join(folder, high, low)
      for (const name of namesIn(leaf)) {
        const space = isHash(name, high, low) ? headerOf(join(leaf, name))?.space : undefined
        if (space !== undefined && spaceDigest(space) === digest) return space
      }
    }
  }
  return undefined
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    const code = errorCode(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return [] // no object came here yet
    throw error
  }
}

function isHash(name: string, high: string, low: string): boolean {
  return name[0] === high && name[1] === low && /^[0-9a-f]{64}$/.test(name)
}
