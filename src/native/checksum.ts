import { crc32 as libraryCrc32 } from 'node:zlib'
import { type Addon, addonOrNull } from './addon.ts'

type Crc32 = (bytes: Uint8Array, before: number) => number

let chosen: Crc32 | undefined

/**
 * The crc32 (zlib polynomial) of what `before` is the checksum of, followed by `bytes`: that of every object in L2, and of
 * every shard in L1. In native code where that is faster than zlib, which is so with 512-bit registers.
 */
export function crc32(bytes: Uint8Array, before = 0): number {
  chosen ??= crc32Of(addonOrNull())
  return chosen(bytes, before)
}

/** The faster of the two on this machine. */
export function crc32Of(addon: Addon | null): Crc32 {
  return addon?.isWide() ? addon.crc32 : libraryCrc32
}
