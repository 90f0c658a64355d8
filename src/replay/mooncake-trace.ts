import { createReadStream } from 'node:fs'
import { createGunzip } from 'node:zlib'
import { CacheError } from '../core/errors.ts'
import { TraceBatch } from './trace-batch.ts'

// One JSON object a line:
//   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}
// timestamp: milliseconds from the start; lengths: tokens; hash_ids: one id for each 512 tokens of the input,
// the last one for what is left over. An id stands for its block *and everything before it*.
// Format: Mooncake (FAST '25), "conversation_trace.jsonl". Further fields are ignored.

/** Tokens of one Mooncake block. */
export const MOONCAKE_BLOCK_TOKENS = 512

export interface TraceOptions {
  /** `drop`: a partial last block is never stored, as in the engine. `count`: taken for a whole block. */
  readonly partialBlocks: 'drop' | 'count'
  /** Requests to read at most. */
  readonly limit?: number
  /** Bytes of one line at most. */
  readonly lineBytesMax?: number
  /** Block ids of one batch, about. */
  readonly batchIds?: number
}

/** A 4 MiB line holds half a million blocks: a prompt of 260 million tokens. */
const LINE_BYTES_MAX = 4 * 1024 * 1024
const BATCH_IDS = 64 * 1024
const ID_MAX = 0xffffffff
const NEWLINE = 10
const PIECE_BYTES = 256 * 1024

/** How far a reader is, for a progress bar: bytes of the file as it lies on disk, up to the end of the last batch. */
export interface TraceProgress {
  bytesTaken: number
}

/**
 * Reads a Mooncake trace (gzip when the name ends in `.gz`) in batches. One batch object is used again for each.
 *
 * @throws CacheError TRACE_INVALID with file, line and reason; NOT_FOUND when the file cannot be opened.
 */
export async function* readMooncakeTrace(
  path: string,
  options: TraceOptions,
  progress: TraceProgress = { bytesTaken: 0 },
): AsyncGenerator<TraceBatch> {
  const batch = new TraceBatch()
  const limit = options.limit ?? Number.POSITIVE_INFINITY
  const batchIds = options.batchIds ?? BATCH_IDS
  let left = limit
  let lineNumber = 0
  for await (const line of readLines(path, options.lineBytesMax ?? LINE_BYTES_MAX, progress)) {
    if (left === 0) break
    lineNumber += 1
    if (line.trim() === '') continue
    const problem = parseMooncakeLine(line, options.partialBlocks, batch)
    if (problem !== null) throw invalid(path, lineNumber, problem)
    left -= 1
    if (batch.idCount < batchIds && left > 0) continue
    yield batch
    batch.clear()
  }
  if (batch.count > 0) yield batch
}

/** The whole trace in one batch: 4 bytes a block reference. */
export async function loadMooncakeTrace(path: string, options: TraceOptions): Promise<TraceBatch> {
  for await (const batch of readMooncakeTrace(path, { ...options, batchIds: Number.POSITIVE_INFINITY })) return batch
  return new TraceBatch()
}

/** Appends one line to the batch. @returns what is wrong with it, or null. */
export function parseMooncakeLine(line: string, partialBlocks: 'drop' | 'count', batch: TraceBatch): string | null {
  let record: unknown
  try {
    record = JSON.parse(line)
  } catch {
    return 'not valid JSON'
  }
  if (typeof record !== 'object' || record === null || Array.isArray(record)) return 'not a JSON object'
  const { timestamp, input_length: input, output_length: output, hash_ids: ids } = record as Record<string, unknown>
  if (typeof timestamp !== 'number' || !(timestamp >= 0 && timestamp <= Number.MAX_SAFE_INTEGER)) {
    return `timestamp is ${shown(timestamp)}, not milliseconds of 0 or more`
  }
  if (!isCount(input)) return `input_length is ${shown(input)}, not a whole number of tokens`
  if (!isCount(output)) return `output_length is ${shown(output)}, not a whole number of tokens`
  if (!Array.isArray(ids)) return `hash_ids is ${shown(ids)}, not an array`
  const blocks = Math.ceil(input / MOONCAKE_BLOCK_TOKENS)
  if (ids.length !== blocks) {
    return `hash_ids has ${ids.length} ids, but ${input} tokens make ${blocks} blocks of ${MOONCAKE_BLOCK_TOKENS}`
  }
  for (let index = 0; index < ids.length; index += 1) {
    const id: unknown = ids[index]
    if (!isCount(id) || id > ID_MAX) return `hash_ids[${index}] is ${shown(id)}, not a whole number of 0 to ${ID_MAX}`
  }
  const stored = partialBlocks === 'count' ? blocks : Math.floor(input / MOONCAKE_BLOCK_TOKENS)
  batch.push(timestamp, input, output, ids as number[], stored)
  return null
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

function shown(value: unknown): string {
  if (value === undefined) return 'missing'
  const text = JSON.stringify(value)
  return text.length > 40 ? `${text.slice(0, 40)}...` : text
}

async function* readLines(path: string, lineBytesMax: number, progress: TraceProgress): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0)
  let lineNumber = 1
  let readBytes = 0
  const isZipped = path.endsWith('.gz')
  const onRead = (bytes: number): void => {
    readBytes += bytes
  }
  for await (const piece of readPieces(path, onRead)) {
    let from = 0
    for (let end = piece.indexOf(NEWLINE); end >= 0; end = piece.indexOf(NEWLINE, from)) {
      const head = piece.subarray(from, end)
      const line = rest.length === 0 ? head : Buffer.concat([rest, head])
      if (line.length > lineBytesMax) throw tooLong(path, lineNumber, lineBytesMax)
      rest = Buffer.alloc(0)
      from = end + 1
      lineNumber += 1
      progress.bytesTaken = isZipped ? readBytes : readBytes - piece.length + from
      yield line.toString('utf8')
    }
    if (rest.length + piece.length - from > lineBytesMax) throw tooLong(path, lineNumber, lineBytesMax)
    rest = Buffer.concat([rest, piece.subarray(from)])
  }
  if (rest.length > 0) yield rest.toString('utf8')
}

/** Pieces of the file, unzipped. `onRead` is told the bytes on disk before the pieces that they make. */
async function* readPieces(path: string, onRead: (bytes: number) => void): AsyncGenerator<Buffer> {
  const file = createReadStream(path, { highWaterMark: PIECE_BYTES })
  try {
    if (path.endsWith('.gz')) {
      const unzipped = createGunzip()
      file.on('data', (piece) => onRead(piece.length))
      file.on('error', (error) => unzipped.destroy(error))
      yield* file.pipe(unzipped)
      return
    }
    for await (const piece of file as AsyncIterable<Buffer>) {
      onRead(piece.length)
      yield piece
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

function invalid(path: string, line: number, reason: string): CacheError {
  return new CacheError('TRACE_INVALID', `${path}:${line}: ${reason}`, { file: path, line, reason })
}

function tooLong(path: string, line: number, lineBytesMax: number): CacheError {
  return invalid(path, line, `longer than ${lineBytesMax} bytes`)
}
