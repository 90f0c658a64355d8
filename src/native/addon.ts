import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { ADDON_ROOT, addonFolder, addonSources, findAddon } from './addon-files.ts'
import type { CudaFunctions } from './cuda.ts'

/**
 * The compiled part of the engine, `src/native/addon`. Every function checks its arguments: a range outside of its memory
 * is a RangeError, a value of another kind a TypeError.
 */
export interface Addon {
  /** What the loops are made for on this machine, such as `x86-64 with avx512`. */
  processor(): string
  /** See `native/cuda.ts`. */
  cudaProbe(library: string): string
  cudaOpen(
    library: string,
    ordinal: number,
    poolBytes: number,
    host: Uint8Array | null,
    methods: number,
    mail: Float64Array,
    onFences: (count: number, lostWith: number) => void,
  ): CudaFunctions | string
  /** Whether checksums are taken in 512-bit registers. Without them the C library's are as fast. */
  isWide(): boolean
  /** The crc32 (zlib polynomial) of what `before` is the checksum of, followed by `bytes`. */
  crc32(bytes: Uint8Array, before: number): number
  /**
   * Writes to `hashes`, end to end, those of the whole chunks of `tokens` behind the chunk whose hash is `parent`:
   * core/chunk-hash. @param hashes at least 32 bytes a chunk.
   */
  hashChunks(parent: Uint8Array, tokens: Uint32Array, chunkTokens: number, hashes: Uint8Array): void
  /**
   * Reads members of a MessagePack array, whole numbers of 0..2^32-1, into `words` from `from` on.
   *
   * @param at where in `message` the first of them begins.
   * @returns where what follows them begins; -1 when there is anything else, and then words are half written.
   */
  readWords(message: Uint8Array, at: number, words: Uint32Array, from: number): number
  /**
   * Copies `count` ranges from `source` to `target`, in order; nothing when one of them lies outside. Long ranges go
   * past the caches. Large batches are shared with other threads where the two do not overlap at all.
   *
   * @param threads that copy at most, this one included.
   */
  copyRanges(
    target: Uint8Array,
    source: Uint8Array,
    targetOffsets: Float64Array,
    sourceOffsets: Float64Array,
    lengths: Float64Array,
    count: number,
    threads: number,
  ): void
  /**
   * Moves a whole file: `native/whole-files`.
   *
   * @param task 0 = create, 1 = overwrite, 2 = read.
   * @param flags 1 = past the page cache, 2 = synced.
   * @param name what a written file is called then; '' = as before.
   * @param pieces 1 to 4. Nobody else may touch their memory until the promise settles.
   * @returns bytes moved, 0 for a file that was left alone; below 0 -(4096 x the call that failed + its error number).
   */
  moveFile(task: number, flags: number, path: string, name: string, ...pieces: Uint8Array[]): Promise<number>
}

let loaded: Addon | string | undefined

/**
 * The addon, or why there is none here: a text of one line. The engine runs without it, in JavaScript. Loads once a
 * thread; threads share the code, not the functions.
 */
export function loadAddon(): Addon | string {
  loaded ??= loadAddonOf(ADDON_ROOT)
  return loaded
}

/** The addon, or null. */
export function addonOrNull(): Addon | null {
  const addon = loadAddon()
  return typeof addon === 'string' ? null : addon
}

/** The addon of a repository, or why it has none. */
export function loadAddonOf(root: string): Addon | string {
  if (!existsSync(addonSources(root))) return 'the sources of the addon are not installed'
  try {
    const path = existsSync(addonFolder(root)) ? findAddon(root) : undefined
    if (path === undefined) return 'the addon is not built: install g++ and run `npm run build:addon`'
    return createRequire(import.meta.url)(path) as Addon
  } catch (error) {
    return `the addon cannot be loaded: ${String(error).split('\n')[0]}`
  }
}
