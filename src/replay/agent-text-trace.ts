import { ChunkHasher } from '../core/chunk-hash.ts'
import { CacheError } from '../core/errors.ts'
import { HashChain } from '../core/hash-chain.ts'
import { TraceBatch } from './trace-batch.ts'
import { invalidLine, LINE_BYTES_MAX, parseRecord, shown, type TraceProgress, traceLines } from './trace-lines.ts'

// One JSON object a line:
//   {"timestamp": 1760428221546118, "input": "You are ...", "output": "THOUGHT: ...", "session_id": "a-1"}
// timestamp: microseconds since 1970; input: the whole prompt, with all earlier turns of the session; output: what the
// model answered; session_id: text or a whole number. Further fields are ignored.
// Format: the agent traces that LMCache publishes.

export interface AgentTextOptions {
  /** Tokens of the engine's chunks. What is left over at the end of a prompt is never stored. */
  readonly chunkTokens: number
  /** Requests to read at most. */
  readonly limit?: number
  /** Bytes of one line at most. */
  readonly lineBytesMax?: number
  /** Blocks of one batch, about. */
  readonly batchBlocks?: number
  /** Lines that are tokenized at a time. */
  readonly linesAhead?: number
}

/** Tokens of a text: as an engine tokenizes a prompt, or without what the model puts around one. */
export type TextEncoder = (text: string, isPrompt: boolean) => Promise<Uint32Array>

/** Few, so that the engine has work while the next texts are tokenized, and the progress bar moves. */
const BATCH_BLOCKS = 256
const LINES_AHEAD = 8
/** Sessions of one trace at most: their names are held. */
const SESSIONS_MAX = 1_000_000

interface AgentRequest {
  readonly timestampMs: number
  readonly input: string
  readonly output: string
  readonly session: string
}

/** A request whose texts are being tokenized. */
interface Pending {
  readonly line: number
  readonly request: AgentRequest
  readonly input: Promise<Uint32Array>
  readonly output: Promise<Uint32Array>
  readonly bytesTaken: number
}

/**
 * Reads a trace of agents' requests in batches, tokenizing the prompts. One batch object is used again for each. What is
 * held: the lines ahead, the batch, and the name of each session. The file is read twice: first for the last line of
 * each session.
 *
 * @throws CacheError TRACE_INVALID with file, line and reason; NOT_FOUND when the file cannot be opened; what the
 *   encoder throws that is not about the text.
 */
export async function* readAgentTextTrace(
  path: string,
  encode: TextEncoder,
  options: AgentTextOptions,
  progress: TraceProgress = { bytesTaken: 0 },
): AsyncGenerator<TraceBatch> {
  const { chunkTokens, linesAhead = LINES_AHEAD, batchBlocks = BATCH_BLOCKS } = options
  const sessions = await readSessions(path, options)
  const hasher = await ChunkHasher.create()
  const chain = new HashChain(64)
  const batch = new TraceBatch()
  for await (const pending of tokenized(path, encode, options, linesAhead)) {
    const { request, line } = pending
    const [input, output] = await tokensOf(path, pending)
    chain.count = 0
    hasher.extend(chain, input, chunkTokens)
    batch.pushChain(request.timestampMs, input.length, output.length, chain)
    const session = sessions.get(request.session)
    batch.setSession(session?.number ?? 0, session?.lastLine === line)
    progress.bytesTaken = pending.bytesTaken
    if (batch.idCount < batchBlocks) continue
    yield batch
    batch.clear()
  }
  if (batch.count > 0) yield batch
}

/** Requests in the order of the file, so many of them being tokenized. */
async function* tokenized(
  path: string,
  encode: TextEncoder,
  options: AgentTextOptions,
  linesAhead: number,
): AsyncGenerator<Pending> {
  const ahead: Pending[] = []
  const place = { bytesTaken: 0 }
  for await (const { line, request } of requests(path, options, place)) {
    const { bytesTaken } = place
    const pending = {
      line,
      request,
      bytesTaken,
      input: encode(request.input, true),
      output: encode(request.output, false),
    }
    for (const tokens of [pending.input, pending.output]) tokens.catch(() => {}) // thrown when its turn comes, or never
    ahead.push(pending)
    if (ahead.length >= linesAhead) yield ahead.shift()!
  }
  yield* ahead
}

interface AgentLine {
  readonly line: number
  readonly request: AgentRequest
}

async function* requests(path: string, options: AgentTextOptions, progress: TraceProgress): AsyncGenerator<AgentLine> {
  let left = options.limit ?? Number.POSITIVE_INFINITY
  for await (const { line, request } of parsedLines(path, options, progress)) {
    if (left === 0) return
    if (typeof request === 'string') throw invalidLine(path, line, request)
    yield { line, request }
    left -= 1
  }
}

interface ParsedLine {
  readonly line: number
  /** Or what is wrong with the line. */
  readonly request: AgentRequest | string
}

async function* parsedLines(
  path: string,
  { lineBytesMax = LINE_BYTES_MAX }: AgentTextOptions,
  progress: TraceProgress,
): AsyncGenerator<ParsedLine> {
  let line = 0
  for await (const text of traceLines(path, lineBytesMax, progress)) {
    line += 1
    if (text.trim() !== '') yield { line, request: parseAgentLine(text) }
  }
}

/** A request of the trace, or what is wrong with the line. */
export function parseAgentLine(line: string): AgentRequest | string {
  const record = parseRecord(line)
  if (typeof record === 'string') return record
  const { timestamp, input, output, session_id: session } = record
  if (!Number.isSafeInteger(timestamp) || (timestamp as number) < 0) {
    return `timestamp is ${shown(timestamp)}, not microseconds of 0 or more`
  }
  if (typeof input !== 'string') return `input is ${shown(input)}, not a text`
  if (typeof output !== 'string') return `output is ${shown(output)}, not a text`
  if (typeof session !== 'string' && !Number.isSafeInteger(session)) {
    return `session_id is ${shown(session)}, neither a text nor a whole number`
  }
  return { timestampMs: (timestamp as number) / 1000, input, output, session: String(session) }
}

interface Session {
  /** In order of first requests. */
  readonly number: number
  lastLine: number
}

/** The sessions by name, each with the line that ends it. */
async function readSessions(path: string, options: AgentTextOptions): Promise<ReadonlyMap<string, Session>> {
  const sessions = new Map<string, Session>()
  for await (const { line, request } of parsedLines(path, options, { bytesTaken: 0 })) {
    if (typeof request === 'string') continue // said when its turn comes, which a limit may prevent
    const known = sessions.get(request.session)
    if (known !== undefined) known.lastLine = line
    else if (sessions.size === SESSIONS_MAX) throw invalidLine(path, line, `more than ${SESSIONS_MAX} sessions`)
    else sessions.set(request.session, { number: sessions.size, lastLine: line })
  }
  return sessions
}

/** Tokens of the two texts. A text that cannot be tokenized is named with its line. */
async function tokensOf(path: string, { line, input, output }: Pending): Promise<[Uint32Array, Uint32Array]> {
  try {
    return [await input, await output]
  } catch (error) {
    const isText = error instanceof CacheError && ['BAD_REQUEST', 'PAYLOAD_TOO_LARGE'].includes(error.code)
    throw isText ? invalidLine(path, line, `a text cannot be tokenized: ${error.message}`) : error
  }
}
