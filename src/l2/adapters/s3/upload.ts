import { CacheError } from '../../../core/errors.ts'
import type { Bucket } from './bucket.ts'
import { givenUp } from './s3-client.ts'

/** Parts of an upload at most: a limit of S3. */
export const PARTS_MAX = 10_000
/** Time for dropping an upload that failed. The batch has none left. */
const ABORT_LIMIT_MS = 5_000
const UPLOAD = 'the upload of an object'

export interface UploadOptions {
  readonly partBytes: number
  readonly parallelism: number
  /** Takes the end of an upload that failed: it reads none of the pieces. */
  readonly background: (work: Promise<unknown>) => void
}

/**
 * Writes an object of one piece of memory after another: at once, or in parts when it is longer than `partBytes`.
 *
 *   start -> parts, `parallelism` at a time -> complete: the object is there
 *                 \-> one failed -> the others end -> abort: nothing is left
 *
 * The pieces are read where they lie until the promise settles.
 */
export async function upload(
  bucket: Bucket,
  key: string,
  pieces: readonly Uint8Array[],
  how: UploadOptions,
  signal: AbortSignal,
): Promise<void> {
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  if (length <= how.partBytes) return bucket.put(key, pieces, signal)
  const id = await bucket.startUpload(key, signal)
  try {
    const parts = partsOf(pieces, Math.max(how.partBytes, length / PARTS_MAX))
    const tags = await putParts(bucket, key, id, parts, how.parallelism, signal)
    if (await bucket.completeUpload(key, id, tags, signal)) return
    // The answer to a first try may have been lost: then the upload is gone because it was completed.
    if ((await bucket.head(key, signal)) === length) return
    throw new CacheError('L2_UNAVAILABLE', 'S3 did not put the parts of an upload together')
  } catch (error) {
    how.background(bucket.abortUpload(key, id, ABORT_LIMIT_MS)) // when it fails, an opening sweeps
    throw signal.aborted ? givenUp(UPLOAD) : error
  }
}

/** @returns the tags of the parts. Rejects after the last part under way has ended. */
async function putParts(
  bucket: Bucket,
  key: string,
  id: string,
  parts: readonly (readonly Uint8Array[])[],
  parallelism: number,
  signal: AbortSignal,
): Promise<string[]> {
  const tags = new Array<string>(parts.length)
  let next = 0
  let error: unknown
  const run = async (): Promise<void> => {
    // Parts under way are not cut when another one fails: the server might take them after the upload was dropped.
    while (next < parts.length && error === undefined && !signal.aborted) {
      const part = next
      next += 1
      try {
        tags[part] = await bucket.putPart(key, id, part + 1, parts[part]!, signal)
      } catch (cause) {
        error ??= cause
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(parts.length, parallelism) }, run))
  if (error !== undefined) throw error
  if (signal.aborted) throw givenUp(UPLOAD)
  return tags
}

/** The pieces cut into parts of `partBytes`, the last one shorter, as views. */
export function partsOf(pieces: readonly Uint8Array[], partBytes: number): Uint8Array[][] {
  const size = Math.ceil(partBytes)
  const parts: Uint8Array[][] = [[]]
  let room = size
  for (const piece of pieces) {
    for (let at = 0; at < piece.length; ) {
      if (room === 0) {
        parts.push([])
        room = size
      }
      const taken = Math.min(room, piece.length - at)
      parts.at(-1)!.push(piece.subarray(at, at + taken))
      room -= taken
      at += taken
    }
  }
  return parts
}
