import { crc32 } from 'node:zlib'
import type { Disk } from './disk.ts'

/** One published object, as text: 32 hex digits of its space, 64 of its hash and 64 of its parent's. */
export interface ManifestEntry {
  readonly space: string
  readonly hash: string
  readonly parent: string
  readonly bytes: number
}

const NEWLINE = 10
const ADDED = /^\+ ([0-9a-f]{32}) ([0-9a-f]{64}) ([0-9a-f]{64}) (\d{1,15})$/
const REMOVED = /^- ([0-9a-f]{32}) ([0-9a-f]{64})$/

/**
 * Append-only list of published objects. It spares a restart the reading of every header, and no more: the
 * directory is the truth, and a line that is missing or torn costs one header.
 *
 *   CRC32 "+" SPACE HASH PARENT BYTES      the object was published
 *   CRC32 "-" SPACE HASH                   it was removed
 */
export class Manifest {
  readonly #disk: Disk
  readonly #path: string
  #queued: string[] = []
  #lines = 0
  #isBroken = false
  #last: Promise<void> = Promise.resolve()

  constructor(disk: Disk, path: string) {
    this.#disk = disk
    this.#path = path
  }

  /** Lines in the file, as far as known. */
  get lines(): number {
    return this.#lines
  }

  /** An append failed: nothing more is written until the next `rewrite`. */
  get isBroken(): boolean {
    return this.#isBroken
  }

  /** Reads the file, oldest line first. Broken lines are passed over. */
  async replay(onAdded: (entry: ManifestEntry) => void, onRemoved: (space: string, hash: string) => void) {
    let bytes: Buffer
    try {
      bytes = await this.#disk.readFile(this.#path)
    } catch {
      return // absent or unreadable: every header is read instead
    }
    let from = 0
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
      const text = bytes.toString('latin1', from + 9, end)
      const isWhole = bytes.toString('latin1', from, from + 8) === sumOf(text)
      from = end + 1
      this.#lines += 1
      if (!isWhole) continue
      const added = ADDED.exec(text)
      if (added) onAdded({ space: added[1]!, hash: added[2]!, parent: added[3]!, bytes: Number(added[4]) })
      const removed = REMOVED.exec(text)
      if (removed) onRemoved(removed[1]!, removed[2]!)
    }
  }

  /** Queues a line for the next `flush`. */
  noteAdded(entry: ManifestEntry): void {
    if (!this.#isBroken) this.#queued.push(addedLine(entry))
  }

  noteRemoved(space: string, hash: string): void {
    if (!this.#isBroken) this.#queued.push(line(`- ${space} ${hash}`))
  }

  /** Appends what is queued. Never rejects. */
  flush(): Promise<void> {
    if (this.#queued.length === 0) return this.#last
    const lines = this.#queued
    this.#queued = []
    this.#last = this.#last.then(() => this.#append(lines))
    return this.#last
  }

  /** Writes the whole list anew, beside the old one, and puts it in its place. Never rejects. */
  rewrite(entries: Iterable<ManifestEntry>): Promise<void> {
    const lines = Array.from(entries, addedLine)
    this.#queued = []
    this.#last = this.#last.then(() => this.#replace(lines))
    return this.#last
  }

  async #append(lines: string[]): Promise<void> {
    if (this.#isBroken) return
    try {
      const file = await this.#disk.open(this.#path, 'a', 0o600)
      try {
        await file.appendFile(lines.join(''))
      } finally {
        await file.close()
      }
      this.#lines += lines.length
    } catch {
      this.#isBroken = true
    }
  }

  async #replace(lines: string[]): Promise<void> {
    const path = `${this.#path}.new`
    try {
      const file = await this.#disk.open(path, 'w', 0o600)
      try {
        for (let from = 0; from < lines.length; from += 4096) {
          await file.appendFile(lines.slice(from, from + 4096).join(''))
        }
        await file.datasync()
      } finally {
        await file.close()
      }
      await this.#disk.rename(path, this.#path)
      this.#lines = lines.length
      this.#isBroken = false
    } catch {
      this.#isBroken = true
      await this.#disk.rm(path, { force: true }).catch(() => undefined)
    }
  }
}

function addedLine({ space, hash, parent, bytes }: ManifestEntry): string {
  return line(`+ ${space} ${hash} ${parent} ${bytes}`)
}

function line(text: string): string {
  return `${sumOf(text)} ${text}\n`
}

function sumOf(text: string): string {
  return crc32(text).toString(16).padStart(8, '0')
}
