import { createReadStream } from 'node:fs'
import { createGunzip } from 'node:zlib'
import { CacheError } from '../core/errors.ts'

/** A 4 MiB line holds half a million blocks of Mooncake (a prompt of 260 million tokens), or a million tokens of text. */
export const LINE_BYTES_MAX = 4 * 1024 * 1024
const NEWLINE = 10
const PIECE_BYTES = 256 * 1024

/** How far a reader is, for a progress bar: bytes of the file as it lies on disk, up to the end of the last batch. */
export interface TraceProgress {
  bytesTaken: number
}

/**
 * The lines of a trace file, without their ends; a name that ends in `.gz` is unzipped. One line at most is held.
 *
 * @throws CacheError TRACE_INVALID with file and line for one that is too long, or a file that is cut short; NOT_FOUND
 *   when the file cannot be opened.
 */
export async function* traceLines(
  path: string,
  lineBytesMax: number,
  progress: TraceProgress,
): AsyncGenerator<string, void> {
  let rest: Buffer = Buffer.alloc(0)
  let lineNumber = 1
  for await (const { bytes: piece, takenBytes } of readPieces(path)) {
    let from = 0
    for (let end = piece.indexOf(NEWLINE); end >= 0; end = piece.indexOf(NEWLINE, from)) {
      const head = piece.subarray(from, end)
      const line = rest.length === 0 ? head : Buffer.concat([rest, head])
      if (line.length > lineBytesMax) throw tooLong(path, lineNumber, lineBytesMax)
      rest = Buffer.alloc(0)
      from = end + 1
      lineNumber += 1
      progress.bytesTaken = takenBytes(from)
      yield line.toString('utf8')
    }
    if (rest.length + piece.length - from > lineBytesMax) throw tooLong(path, lineNumber, lineBytesMax)
    rest = Buffer.concat([rest, piece.subarray(from)])
  }
  if (rest.length > 0) yield rest.toString('utf8')
}

interface Piece {
  readonly bytes: Buffer
  /** Bytes of the file on disk that the first `length` bytes of the piece end at, about. */
  takenBytes(length: number): number
}

async function* readPieces(path: string): AsyncGenerator<Piece> {
  const file = createReadStream(path, { highWaterMark: PIECE_BYTES })
  try {
    if (path.endsWith('.gz')) {
      const unzipped = createGunzip({ chunkSize: PIECE_BYTES })
      file.on('error', (error) => unzipped.destroy(error))
      for await (const bytes of file.pipe(unzipped) as AsyncIterable<Buffer>) {
        yield { bytes, takenBytes: () => unzipped.bytesWritten }
      }
      return
    }
    let before = 0
    for await (const bytes of file as AsyncIterable<Buffer>) {
      const start = before
      before += bytes.length
      yield { bytes, takenBytes: (length) => start + length }
    }
  } catch (error) {
    throw readFailed(path, error as NodeJS.ErrnoException)
  } finally {
    file.destroy()
  }
}

function readFailed(path: string, error: NodeJS.ErrnoException): CacheError {
  if (error instanceof CacheError) return error
  if (error.code?.startsWith('Z_')) {
    return new CacheError('TRACE_INVALID', `${path}: not a gzip file, or cut short`, { file: path }, error)
  }
  const reason = error.code === 'ENOENT' ? 'no such file' : error.code === 'EISDIR' ? 'is a directory' : error.message
  return new CacheError('NOT_FOUND', `trace ${path}: ${reason}`, { field: 'FILE' }, error)
}

/** A line that cannot be taken. */
export function invalidLine(path: string, line: number, reason: string): CacheError {
  return new CacheError('TRACE_INVALID', `${path}:${line}: ${reason}`, { file: path, line, reason })
}

function tooLong(path: string, line: number, lineBytesMax: number): CacheError {
  return invalidLine(path, line, `longer than ${lineBytesMax} bytes`)
}

/** The object of a line, or what is wrong with it. */
export function parseRecord(line: string): Readonly<Record<string, unknown>> | string {
  let record: unknown
  try {
    record = JSON.parse(line)
  } catch {
    return 'not valid JSON'
  }
  if (typeof record !== 'object' || record === null || Array.isArray(record)) return 'not a JSON object'
  return record as Record<string, unknown>
}

/** A value for a message, cut to a bearable length. */
export function shown(value: unknown): string {
  if (value === undefined) return 'missing'
  const text = JSON.stringify(value)
  return text.length > 40 ? `${text.slice(0, 40)}...` : text
}
