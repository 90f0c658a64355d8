import { TraceBatch } from './trace-batch.ts'
import { invalidLine, LINE_BYTES_MAX, parseRecord, shown, type TraceProgress, traceLines } from './trace-lines.ts'

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

const BATCH_IDS = 64 * 1024
const ID_MAX = 0xffffffff

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
  for await (const line of traceLines(path, options.lineBytesMax ?? LINE_BYTES_MAX, progress)) {
    if (left === 0) break
    lineNumber += 1
    if (line.trim() === '') continue
    const problem = parseMooncakeLine(line, options.partialBlocks, batch)
    if (problem !== null) throw invalidLine(path, lineNumber, problem)
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
  const record = parseRecord(line)
  if (typeof record === 'string') return record
  const { timestamp, input_length: input, output_length: output, hash_ids: ids } = record
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
