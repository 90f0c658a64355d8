import type { CacheError } from '../../../core/errors.ts'

/** The longest string of the protocol. */
export const BULK_BYTES_MAX = 512 * 1024 ** 2

/** An error that the server answered with: `word` is its first word, such as OOM or MOVED. */
export class ServerError extends Error {
  override readonly name = 'ServerError'
  readonly word: string

  constructor(message: string) {
    super(message)
    this.word = message.split(' ', 1)[0]!
  }
}

/** A bulk string of so many bytes. They lie in the places of the command when their sum is just that. */
export interface Bulk {
  readonly bytes: number
}

/** What came back: an integer, a status, null, a bulk string, an error of the server, or why nothing came. */
export type Reply = number | string | null | Bulk | ServerError | CacheError

/**
 * One command and its answer. `parts` is asked for when the command is sent: sums are taken then, not before. An error
 * in place of them is its reply, and nothing is sent.
 * The bytes of parts and places are the connection's until `reply` is set.
 */
export interface RedisCommand {
  /** Decides which node of a Cluster gets the command. */
  readonly key: string
  readonly parts: () => readonly Uint8Array[] | CacheError
  /** Bytes sent and asked for, for the window. */
  readonly bytes: number
  /** Where a bulk string goes, in order; empty = it is dropped. */
  readonly places: readonly Uint8Array[]
  /** Told the answer, once. It may change its mind about the places afterwards: they are no longer written to. */
  readonly onReply?: (reply: Reply) => void
  reply: Reply | undefined
}

const NOWHERE: readonly Uint8Array[] = []

/** A command of short words. */
export function command(key: string, ...words: string[]): RedisCommand {
  const bytes = encodeWords(words)
  return { key, parts: () => [bytes], bytes: bytes.length, places: NOWHERE, reply: undefined }
}

/** RESP of a command: an array of bulk strings. */
export function encodeWords(words: readonly string[]): Buffer {
  let text = `*${words.length}\r\n`
  for (const word of words) text += `$${Buffer.byteLength(word)}\r\n${word}\r\n`
  return Buffer.from(text)
}
