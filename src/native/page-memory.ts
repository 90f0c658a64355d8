import { loadPosix } from './posix.ts'

/** What addresses, lengths and offsets of unbuffered file I/O are multiples of. */
export const PAGE_BYTES = 4096

/** Zeroed memory that starts on a page, where addresses can be known; else memory that starts anywhere. */
export function pageMemory(bytes: number): Buffer<ArrayBuffer> {
  const posix = loadPosix()
  const buffer = Buffer.alloc(bytes + PAGE_BYTES)
  const skip = typeof posix === 'string' ? 0 : -Number(posix.addressOf(buffer) % BigInt(PAGE_BYTES)) & (PAGE_BYTES - 1)
  return buffer.subarray(skip, skip + bytes)
}

/** Whether a view starts on a page and has whole pages; false where addresses cannot be known. About 0.1 us. */
export function isWholePages(view: Uint8Array): boolean {
  if (view.length === 0 || view.length % PAGE_BYTES !== 0) return false
  const posix = loadPosix()
  return typeof posix !== 'string' && posix.addressOf(view) % BigInt(PAGE_BYTES) === 0n
}
