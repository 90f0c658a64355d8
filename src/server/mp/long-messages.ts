import { SlicedTokens } from '../../protocol/mp/sliced-tokens.ts'
import type { ReadWords } from '../../protocol/msgpack/reader.ts'
import type { Client } from './clients.ts'

/** A message that takes longer to read than others may wait for it: 0.8 ms. */
export const LONG_BYTES = 768 * 1024
/** Tokens that are read in one turn of the loop: 0.3 ms. */
const SLICE_TOKENS = 65_536
/** What waits, of all clients and of one; beyond it nothing is put off. */
const BYTES_MAX = 128 * 1024 * 1024
const MESSAGES_MAX = 1024
/** Memory for one long message is used again up to this length: new memory costs three times the copy. */
const SPARE_BYTES_MAX = 8 * 1024 * 1024

export interface LongMessagesParts {
  /** Null = nothing is put off. */
  readonly readWords: ReadWords | null
  /** Decodes a message for the first time; nothing comes of it but where its tokens are, and what is done at once. */
  readonly begin: (client: Client, frames: readonly Uint8Array[], tokens: SlicedTokens) => void
  /** Handles a message. @param tokens null = nothing of it was read. */
  readonly perform: (client: Client, frames: readonly Uint8Array[], tokens: SlicedTokens | null) => void
  /** Told of bugs. */
  readonly onError: (error: unknown) => void
}

interface Message {
  readonly frames: readonly Uint8Array[]
  readonly bytes: number
  tokens: SlicedTokens | null
}

/**
 * Messages with very many tokens are read in slices, one a turn of the loop, clients in turn, so that nobody else waits
 * for them. What a client sends behind one waits until it was handled: messages of a client stay in order.
 *
 *     client A   [long 3/16] [short] [short]      turns:  A  B  A  B  A  A ...
 *     client B   [long 0/16]
 *     client C   (nothing waits: handled as it comes)
 */
export class LongMessages {
  readonly #parts: LongMessagesParts
  readonly #queues = new Map<Client, Message[]>()
  #bytes = 0
  #spare: Buffer | null = null
  #next: NodeJS.Immediate | null = null

  constructor(parts: LongMessagesParts) {
    this.#parts = parts
  }

  /** Puts off a message that is long or comes behind one. The frames may change afterwards. @returns false = handle it now. */
  take(client: Client, frames: readonly Uint8Array[]): boolean {
    const queue = this.#queues.get(client)
    let bytes = 0
    for (let at = 0; at < frames.length; at += 1) bytes += frames[at]!.length
    if (queue === undefined && (bytes < LONG_BYTES || this.#parts.readWords === null)) return false
    if (this.#bytes + bytes > BYTES_MAX || (queue !== undefined && queue.length >= MESSAGES_MAX)) {
      if (queue !== undefined) this.#finish(client, queue)
      return false
    }
    const message: Message = { frames: frames.map((frame) => this.#copy(frame)), bytes, tokens: null }
    this.#bytes += bytes
    if (queue !== undefined) queue.push(message)
    else {
      this.#queues.set(client, [message])
      this.#begin(client, message)
    }
    this.#next ??= setImmediate(() => this.#turn())
    return true
  }

  /** Forgets everything that waits. */
  close(): void {
    if (this.#next !== null) clearImmediate(this.#next)
    this.#next = null
    this.#queues.clear()
    this.#bytes = 0
  }

  #turn(): void {
    this.#next = null
    const first = this.#queues.entries().next().value
    if (first === undefined) return
    const [client, queue] = first
    this.#queues.delete(client)
    this.#queues.set(client, queue) // behind the others
    if (client.isGone) this.#forget(client, queue)
    else this.#advance(client, queue, SLICE_TOKENS)
    if (this.#queues.size > 0) this.#next ??= setImmediate(() => this.#turn())
  }

  /** Reads on in the first message of a client; handles it when it is read. */
  #advance(client: Client, queue: Message[], tokens: number): void {
    const message = queue[0]!
    try {
      if (message.tokens?.readSome(tokens) === false) return
      this.#parts.perform(client, message.frames, message.tokens)
    } catch (error) {
      this.#parts.onError(error)
    }
    queue.shift()
    this.#end(message)
    if (queue.length === 0) this.#queues.delete(client)
    else this.#begin(client, queue[0]!)
  }

  /** Handles all that waits of a client, at once. */
  #finish(client: Client, queue: Message[]): void {
    while (queue.length > 0) this.#advance(client, queue, Number.POSITIVE_INFINITY)
  }

  #begin(client: Client, message: Message): void {
    const { readWords, begin, onError } = this.#parts
    if (message.bytes < LONG_BYTES) return
    message.tokens = new SlicedTokens(readWords!)
    try {
      begin(client, message.frames, message.tokens)
    } catch (error) {
      onError(error)
    }
  }

  #forget(client: Client, queue: readonly Message[]): void {
    this.#queues.delete(client)
    for (const message of queue) this.#end(message)
  }

  #copy(frame: Uint8Array): Uint8Array {
    if (frame.length < LONG_BYTES / 2) return Uint8Array.from(frame)
    const spare = this.#spare !== null && this.#spare.length >= frame.length ? this.#spare : null
    if (spare !== null) this.#spare = null
    const memory = spare ?? Buffer.allocUnsafeSlow(2 ** Math.ceil(Math.log2(frame.length)))
    memory.set(frame)
    return memory.subarray(0, frame.length)
  }

  /** Nobody looks at its frames any more. */
  #end({ frames, bytes }: Message): void {
    this.#bytes -= bytes
    for (const { buffer } of frames) {
      const isLong = buffer.byteLength >= LONG_BYTES / 2 && buffer.byteLength <= SPARE_BYTES_MAX
      if (isLong && buffer.byteLength > (this.#spare?.length ?? 0)) this.#spare = Buffer.from(buffer as ArrayBuffer)
    }
  }
}
