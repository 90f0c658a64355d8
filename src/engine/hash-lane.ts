import type { MessagePort } from 'node:worker_threads'
import type { ChunkHasher } from '../core/chunk-hash.ts'
import { CacheError } from '../core/errors.ts'
import { HASH_BYTES } from '../core/hash-chain.ts'
import { type HashLane, SLICE_CHUNKS_MAX } from './hash-queue.ts'

/** The longest chunk, and more than the other slices have. */
const TOKENS_MAX = 65_536
const TOKENS_AT = HASH_BYTES
const HASHES_AT = TOKENS_AT + 4 * TOKENS_MAX

/** A slice to hash: everything else lies in the shared memory. The answer is the same message. */
interface Slice {
  readonly chunks: number
  readonly chunkTokens: number
}

/**
 * The memory through which one thread has slices hashed by another. It belongs to the asker, but between its message
 * and the answer, when it belongs to the other.
 *
 *     parent, 32 bytes | tokens, 65,536 words | hashes, 512 x 32 bytes
 */
export function sliceMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(HASHES_AT + SLICE_CHUNKS_MAX * HASH_BYTES)
}

/** The asking side. Fails with SHUTTING_DOWN once the port is closed. */
export class SharedHashLane implements HashLane {
  readonly #port: MessagePort
  readonly #bytes: Uint8Array
  readonly #words: Uint32Array
  #waiter: { resolve: (hashes: Uint8Array) => void; reject: (error: Error) => void } | null = null
  #isClosed = false

  /** @param memory of `sliceMemory`, which the thread at the other end of the port has too. */
  constructor(port: MessagePort, memory: SharedArrayBuffer) {
    this.#port = port
    this.#bytes = new Uint8Array(memory)
    this.#words = new Uint32Array(memory, TOKENS_AT, TOKENS_MAX)
    port.on('message', ({ chunks }: Slice) => {
      const waiter = this.#waiter
      this.#waiter = null
      waiter?.resolve(this.#bytes.subarray(HASHES_AT, HASHES_AT + chunks * HASH_BYTES))
    })
    port.on('close', () => this.close())
  }

  hash(parent: Uint8Array, tokens: Uint32Array, chunkTokens: number): Promise<Uint8Array> {
    if (this.#isClosed) return Promise.reject(closed())
    this.#bytes.set(parent)
    this.#words.set(tokens)
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject }
      this.#port.postMessage({ chunks: Math.floor(tokens.length / chunkTokens), chunkTokens } satisfies Slice)
    })
  }

  /** Idempotent. */
  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#waiter?.reject(closed())
    this.#waiter = null
    this.#port.close()
  }
}

/** The hashing side: answers slices for as long as the port is open. */
export function serveSlices(port: MessagePort, memory: SharedArrayBuffer, hasher: ChunkHasher): void {
  const parent = new Uint8Array(memory, 0, HASH_BYTES)
  port.on('message', (slice: Slice) => {
    const { chunks, chunkTokens } = slice
    const tokens = new Uint32Array(memory, TOKENS_AT, chunks * chunkTokens)
    hasher.hashRun(parent, tokens, chunkTokens, new Uint8Array(memory, HASHES_AT, chunks * HASH_BYTES))
    port.postMessage(slice)
  })
}

function closed(): CacheError {
  return new CacheError('SHUTTING_DOWN', 'the thread that hashes has ended')
}
