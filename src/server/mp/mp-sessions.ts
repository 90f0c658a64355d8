import { LRUCache } from 'lru-cache'
import { HASH_BYTES, HashChain } from '../../core/hash-chain.ts'
import type { SpaceId } from '../../core/ids.ts'
import type { PromptHasher } from '../../engine/prompt-hasher.ts'
import type { LookupHold } from './lookup-hold.ts'

/** Tokens that all sessions together remember, in bytes. */
const TOKEN_BYTES_MAX = 256 * 1024 * 1024
const NO_TOKENS = new Uint32Array(0)

/** One request of one tenant: the tokens it was last known by, and the hashes of them so far. */
export interface MpSession {
  readonly key: string
  readonly space: SpaceId
  tokens: Uint32Array
  /** Of `tokens`; replaced when they turn out to be others. */
  chain: HashChain
  /** A hashing of `chain` under way. */
  hashing: Promise<void> | null
  hold: LookupHold | null
  isOpen: boolean
}

/**
 * Sessions by (model, salt, world size, request id). Two tenants may use one request id and never meet. Tokens that come
 * with a request are compared with those of the session, whose hashes are used only where they agree. Bounded in number
 * and in bytes of tokens: the session used longest ago is closed for a new one.
 */
export class MpSessions {
  readonly #sessions: LRUCache<string, MpSession>
  readonly #hasher: PromptHasher
  readonly #chunkTokens: number

  constructor(capacity: number, hasher: PromptHasher, chunkTokens: number) {
    this.#hasher = hasher
    this.#chunkTokens = chunkTokens
    this.#sessions = new LRUCache({
      max: capacity,
      maxSize: TOKEN_BYTES_MAX,
      sizeCalculation: (session) => Math.max(1, session.tokens.byteLength),
      noDisposeOnSet: true,
      dispose: endSession,
    })
  }

  get count(): number {
    return this.#sessions.size
  }

  /** The session of a request, made at the first call, with these tokens. */
  open(space: SpaceId, requestId: string, tokens: Uint32Array): MpSession {
    const key = `${space}:${requestId}`
    const found = this.#sessions.get(key)
    if (found === undefined) {
      const session = { key, space, tokens, chain: new HashChain(0), hashing: null, hold: null, isOpen: true }
      this.#sessions.set(key, session)
      return session
    }
    if (!isPrefix(found.tokens, tokens)) {
      if (!isPrefix(tokens, found.tokens)) this.#restart(found)
      else return found
    }
    if (tokens.length > found.tokens.length) {
      found.tokens = tokens
      this.#sessions.set(key, found)
    }
    return found
  }

  find(space: SpaceId, requestId: string): MpSession | undefined {
    return this.#sessions.get(`${space}:${requestId}`)
  }

  /** Whether the first `end` tokens of a request are those of the session. */
  knows(session: MpSession, tokens: Uint32Array, end: number): boolean {
    return end <= tokens.length && isPrefix(tokens.subarray(0, end), session.tokens)
  }

  close(session: MpSession): void {
    this.#sessions.delete(session.key)
  }

  closeAll(): void {
    this.#sessions.clear()
  }

  /**
   * The hashes of the first `chunks` whole chunks of the session's tokens: at once when they are known, later when not.
   * The chain may be longer.
   */
  chainOf(session: MpSession, chunks: number): HashChain | Promise<HashChain> {
    if (session.hashing === null && session.chain.count >= chunks) return session.chain
    return this.#hash(session, chunks)
  }

  async #hash(session: MpSession, chunks: number): Promise<HashChain> {
    while (session.hashing !== null) await session.hashing.catch(() => {}) // whoever started it is told
    const { chain, tokens } = session
    if (chain.count >= chunks) return chain
    const hashing = this.#hasher.extend(chain, tokens.subarray(0, chunks * this.#chunkTokens), this.#chunkTokens)
    session.hashing = hashing
    try {
      await hashing
    } finally {
      if (session.hashing === hashing) session.hashing = null
    }
    return chain
  }

  /** Another prompt under an old request id. */
  #restart(session: MpSession): void {
    session.tokens = NO_TOKENS
    session.chain = new HashChain(0)
    session.hashing = null
    session.hold?.endSession()
    session.hold = null
  }
}

/** The hashes of the first chunks, for a lookup that outlives further hashing. */
export function firstOf(chain: HashChain, chunks: number): HashChain {
  return HashChain.of(chain.bytes.subarray(0, chunks * HASH_BYTES))
}

function endSession(session: MpSession): void {
  session.isOpen = false
  session.hold?.endSession()
}

function isPrefix(shorter: Uint32Array, longer: Uint32Array): boolean {
  if (shorter.length > longer.length) return false
  return Buffer.compare(bytesOf(shorter), bytesOf(longer.subarray(0, shorter.length))) === 0
}

function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength)
}
