import { BULK_BYTES_MAX, type RedisCommand, type Reply, ServerError } from './redis-command.ts'

const SCRATCH_BYTES = 16 * 1024
const LF = 10
const CRLF_BYTES = 2

/**
 * Reads RESP2 replies as they come off a socket. Long bulk strings are read by the socket itself to where they belong:
 *
 *   buffer() -> the socket reads into it -> take(n) -> answers ... -> buffer() -> ...
 *
 *                 line "$n"               n bytes there           CR LF
 *   LINE (scratch) --------> BULK (places) -----------> END (scratch) -----> LINE
 *      \--- any other line: an answer
 *
 * Scratch is short, so that little of a bulk string is read there and has to be copied.
 */
export class ReplyReader {
  readonly #scratch = Buffer.allocUnsafe(SCRATCH_BYTES)
  /** Bytes of a line's beginning in the scratch. */
  #kept = 0
  /** Bytes of the bulk string that is being read; -1 = none. */
  #bulkBytes = -1
  #bulkRead = 0
  #command: RedisCommand | undefined
  readonly #next: () => RedisCommand
  readonly #answer: (command: RedisCommand, reply: Reply) => void

  /**
   * @param next the command that the coming reply answers. Throws when there is none.
   * @param answer told each answer.
   */
  constructor(next: () => RedisCommand, answer: (command: RedisCommand, reply: Reply) => void) {
    this.#next = next
    this.#answer = answer
  }

  /** Whether the places of a command may be written to by the next read. */
  isFilling(command: RedisCommand): boolean {
    return this.#bulkBytes >= 0 && this.#command === command
  }

  /** Where the next bytes of the socket belong. Valid until `take`. */
  buffer(): Uint8Array {
    return this.#place() ?? this.#scratch.subarray(this.#kept)
  }

  /** `count` bytes were read into what `buffer` gave. @throws Error when they are not RESP. */
  take(count: number): void {
    if (this.#place() !== undefined) {
      this.#bulkRead += count
      return
    }
    const end = this.#kept + count
    this.#kept = 0
    let at = 0
    while (at < end) {
      if (this.#bulkBytes >= 0) at = this.#takeBulk(at, end)
      else {
        const lineEnd = this.#scratch.indexOf(LF, at)
        if (lineEnd < 0 || lineEnd >= end) {
          this.#keep(at, end)
          return
        }
        this.#takeLine(this.#scratch.toString('latin1', at, lineEnd - 1))
        at = lineEnd + 1
      }
    }
  }

  /** Moves the beginning of a line to the start of the scratch. */
  #keep(from: number, end: number): void {
    if (end - from >= SCRATCH_BYTES) throw new Error('a line of a reply is too long')
    this.#scratch.copyWithin(0, from, end)
    this.#kept = end - from
  }

  #takeLine(line: string): void {
    const command = this.#next()
    const rest = line.slice(1)
    if (line[0] === '+') this.#answer(command, rest)
    else if (line[0] === '-') this.#answer(command, new ServerError(rest))
    else if (line[0] === ':') this.#answer(command, Number(rest))
    else if (line === '$-1') this.#answer(command, null)
    else if (line[0] === '$') this.#beginBulk(command, Number(rest))
    else throw new Error('the server does not speak RESP2')
  }

  #beginBulk(command: RedisCommand, bytes: number): void {
    if (!(bytes >= 0 && bytes <= BULK_BYTES_MAX)) throw new Error('a reply of an impossible length')
    this.#command = command
    this.#bulkBytes = bytes
    this.#bulkRead = 0
  }

  /** Takes what the scratch has of the bulk string and its end. @returns how far. */
  #takeBulk(from: number, end: number): number {
    let at = from
    while (at < end && this.#bulkRead < this.#bulkBytes) {
      const place = this.#place()
      const count = Math.min(end - at, place?.length ?? this.#bulkBytes - this.#bulkRead)
      place?.set(this.#scratch.subarray(at, at + count))
      this.#bulkRead += count
      at += count
    }
    const skipped = Math.min(end - at, this.#bulkBytes + CRLF_BYTES - this.#bulkRead)
    this.#bulkRead += skipped
    if (this.#bulkRead === this.#bulkBytes + CRLF_BYTES) {
      const command = this.#command!
      const bytes = this.#bulkBytes
      this.#command = undefined
      this.#bulkBytes = -1
      this.#answer(command, { bytes })
    }
    return at + skipped
  }

  /** Where the next byte of the bulk string goes: the rest of a place; undefined when it goes nowhere. */
  #place(): Uint8Array | undefined {
    if (this.#bulkRead >= this.#bulkBytes) return undefined
    const { places, reply } = this.#command!
    if (reply !== undefined) return undefined // given up: the rest is dropped
    let length = 0
    for (const place of places) length += place.length
    if (length !== this.#bulkBytes) return undefined
    let offset = this.#bulkRead
    for (const place of places) {
      if (offset < place.length) return place.subarray(offset)
      offset -= place.length
    }
    return undefined
  }
}
