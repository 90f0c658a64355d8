import { constants } from 'node:fs'
import type { FileHandle } from 'node:fs/promises'
import type { FileWay, WholeFiles } from '../../native/whole-files.ts'
import type { Disk } from './disk.ts'

const { O_CREAT, O_DIRECT, O_EXCL, O_RDONLY, O_WRONLY } = constants

/** Files moved call by call through a `Disk`: where there is no addon, and over disks that fail on purpose. */
export class DiskFiles implements WholeFiles {
  readonly #disk: Disk

  constructor(disk: Disk) {
    this.#disk = disk
  }

  async create(path: string, pieces: readonly Uint8Array[], name: string | null, way: FileWay): Promise<void> {
    const file = await this.#disk.open(path, O_WRONLY | O_CREAT | O_EXCL | flagsOf(way), 0o600)
    try {
      await fill(file, pieces, way)
    } finally {
      await file.close()
    }
    if (name !== null) await this.#disk.rename(path, name)
  }

  async overwrite(path: string, pieces: readonly Uint8Array[], name: string | null, way: FileWay): Promise<boolean> {
    const bytes = pieces.reduce((sum, { length }) => sum + length, 0)
    const file = await this.#disk.open(path, O_WRONLY | flagsOf(way))
    try {
      const { size, nlink } = await file.stat()
      if (size !== bytes || nlink !== 1) return false
      await fill(file, pieces, way)
    } finally {
      await file.close()
    }
    if (name !== null) await this.#disk.rename(path, name)
    return true
  }

  async read(path: string, pieces: readonly Uint8Array[], way: FileWay): Promise<number> {
    const file = await this.#disk.open(path, O_RDONLY | flagsOf(way))
    try {
      let total = 0
      let left = [...pieces]
      while (left.length > 0) {
        const { bytesRead } = await file.readv(left, total)
        total += bytesRead
        left = after(left, bytesRead)
        const isOver = bytesRead === 0 || (way.isDirect && left.length > 0) // a direct read stops short only at the end
        if (isOver) break
      }
      return total
    } finally {
      await file.close()
    }
  }
}

function flagsOf({ isDirect }: FileWay): number {
  return isDirect ? O_DIRECT : 0
}

async function fill(file: FileHandle, pieces: readonly Uint8Array[], { isSynced }: FileWay): Promise<void> {
  let left = [...pieces]
  while (left.length > 0) left = after(left, (await file.writev(left)).bytesWritten)
  if (isSynced) await file.datasync()
}

/** The pieces without their first `bytes` bytes. */
function after(pieces: readonly Uint8Array[], bytes: number): Uint8Array[] {
  const left: Uint8Array[] = []
  let skip = bytes
  for (const piece of pieces) {
    if (skip < piece.length) left.push(skip === 0 ? piece : piece.subarray(skip))
    skip = Math.max(0, skip - piece.length)
  }
  return left
}
