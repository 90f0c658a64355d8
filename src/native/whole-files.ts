import { getSystemErrorMap } from 'node:util'
import { type Addon, addonOrNull } from './addon.ts'

/** How a file is written or read. */
export interface FileWay {
  /** Past the page cache: every piece is whole pages, then. */
  readonly isDirect: boolean
  /** Whether bytes are forced to the device before a written file gets its name. */
  readonly isSynced: boolean
}

/**
 * Moves whole files in and out of memory, which nobody else touches until the promise settles. Calls fail with the errors
 * of `node:fs`, and leave behind what was half written.
 */
export interface WholeFiles {
  /** Makes a file of these pieces at a path where there is none; then calls it `name`, unless that is null. */
  create(path: string, pieces: readonly Uint8Array[], name: string | null, way: FileWay): Promise<void>
  /**
   * Writes these pieces over a file of their length, then calls it `name`, unless that is null.
   * @returns false when it has another length, or several names: it is as it was.
   */
  overwrite(path: string, pieces: readonly Uint8Array[], name: string | null, way: FileWay): Promise<boolean>
  /** Fills the pieces from the start of a file. @returns bytes read: less than asked when the file is shorter. */
  read(path: string, pieces: readonly Uint8Array[], way: FileWay): Promise<number>
}

const CREATE = 0
const OVERWRITE = 1
const READ = 2
const DIRECT = 1
const SYNCED = 2
/** An answer below 0 is a failure: its call times this, and the number of its error. */
const CALL_STEP = 4096
/** By number, as `node:fs` calls them. */
const CALLS = ['', 'open', 'fstat', 'write', 'fdatasync', 'close', 'rename', 'read']
/** The name of a file that keeps its own. */
const KEPT = ''

/**
 * Files moved by the addon, each in one call on a thread of libuv's pool: straight between the device, or the page cache,
 * and the memory of the pieces.
 */
export class NativeFiles implements WholeFiles {
  readonly #move: Addon['moveFile']

  constructor({ moveFile }: Addon) {
    this.#move = moveFile
  }

  async create(path: string, pieces: readonly Uint8Array[], name: string | null, way: FileWay): Promise<void> {
    const answer = await this.#move(CREATE, flagsOf(way), path, name ?? KEPT, ...pieces)
    if (answer < 0) throw failure(answer, path)
  }

  async overwrite(path: string, pieces: readonly Uint8Array[], name: string | null, way: FileWay): Promise<boolean> {
    const answer = await this.#move(OVERWRITE, flagsOf(way), path, name ?? KEPT, ...pieces)
    if (answer < 0) throw failure(answer, path)
    return answer > 0
  }

  async read(path: string, pieces: readonly Uint8Array[], way: FileWay): Promise<number> {
    const answer = await this.#move(READ, flagsOf(way), path, KEPT, ...pieces)
    if (answer < 0) throw failure(answer, path)
    return answer
  }
}

/** Files moved by the addon; null where there is none. */
export function nativeFiles(): WholeFiles | null {
  const addon = addonOrNull()
  return addon === null ? null : new NativeFiles(addon)
}

function flagsOf({ isDirect, isSynced }: FileWay): number {
  return (isDirect ? DIRECT : 0) | (isSynced ? SYNCED : 0)
}

/** The error that `node:fs` would have thrown. */
function failure(answer: number, path: string): NodeJS.ErrnoException {
  const errno = answer % CALL_STEP
  const syscall = CALLS[Math.trunc(-answer / CALL_STEP)]!
  const [code, text] = getSystemErrorMap().get(errno) ?? [`ERRNO_${-errno}`, 'unknown error']
  return Object.assign(new Error(`${code}: ${text}, ${syscall} '${path}'`), { errno, code, syscall, path })
}
