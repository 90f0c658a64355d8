import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { ADDON_ROOT, addonFolder, addonSources, findAddon } from './addon-files.ts'
import type { CudaFunctions } from './cuda.ts'

/**
 * The compiled part of the engine, `src/native/addon`. Every function checks its arguments: a range outside of its memory
 * is a RangeError, a value of another kind a TypeError.
 */
export interface Addon {
  /** What this processor has of the instruction sets that the addon knows, such as `avx512`. */
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
    onFences: (count: number) => void,
  ): CudaFunctions | string
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
