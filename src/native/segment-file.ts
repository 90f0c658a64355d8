import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { CacheError } from '../core/errors.ts'

/**
 * The shared memory of another process, through its file: reads and writes of it are those of the mapping. For clients
 * that copy little; it needs no mapping, and so no foreign function.
 */
export class SegmentFile {
  readonly #fd: number

  private constructor(fd: number) {
    this.#fd = fd
  }

  /** @param name as the owner told it. @throws CacheError SHARED_MEMORY_UNAVAILABLE */
  static open(name: string, directory = '/dev/shm'): SegmentFile {
    const path = join(directory, name)
    if (!/^[\w.-]{1,200}$/.test(name)) throw unavailable(path, 'no name for a segment')
    try {
      return new SegmentFile(openSync(path, 'r+'))
    } catch (error) {
      throw unavailable(path, (error as NodeJS.ErrnoException).code ?? String(error), error)
    }
  }

  /** The bytes at `offset`. @throws CacheError SHARED_MEMORY_UNAVAILABLE when they are not all there. */
  read(offset: number, length: number): Uint8Array {
    const bytes = new Uint8Array(length)
    for (let at = 0; at < length; ) {
      const read = readSync(this.#fd, bytes, at, length - at, offset + at)
      if (read === 0) throw unavailable('the segment', `it ends before ${offset + length}`)
      at += read
    }
    return bytes
  }

  write(offset: number, bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) at += writeSync(this.#fd, bytes, at, bytes.length - at, offset + at)
  }

  close(): void {
    closeSync(this.#fd)
  }
}

function unavailable(path: string, reason: string, cause?: unknown): CacheError {
  return new CacheError('SHARED_MEMORY_UNAVAILABLE', `${path} cannot be used (${reason})`, {}, cause)
}
