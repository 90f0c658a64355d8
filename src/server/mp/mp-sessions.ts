import { LRUCache } from 'lru-cache'
import { HASH_BYTES, HashChain } from '../../core/hash-chain.ts'
import type { SpaceId } from '../../core/ids.ts'
import type { PromptHasher } from '../../engine/prompt-hasher.ts'
import type { Client } from './clients.ts'
import type { LookupHold } from './lookup-hold.ts'

/** Tokens that all sessions together remember, and the hashes of their chunks, in bytes. */
const TOKEN_BYTES_MAX = 256 * 1024 * 1024
const NO_TOKENS = new Uint32Array(0)

/** One request of one tenant: the tokens it was last known by, and the hashes of them so far. */
export interface MpSession {
  readonly space: SpaceId
  tokens: Uint32Array
  /** Of `tokens`; replaced when they turn out to be others. */
  chain: HashChain
  /** A hashing of `chain` under way: whether it came to its end. */
  hashing: Promise<boolean> | null
  hold: LookupHold | null
  isOpen: boolean
  /** Who ends it: set while a store opened it, and nobody had looked it up before. See `MpSessions.endStored`. */
  readonly storedAs: string | null
}

/** A session, with the tokens that it was counted with: the table counts anew only what is another object. */
interface Counted {
  readonly session: MpSession
}

/** At once, or later; null when nobody needs it any more. */
type Chain = HashChain | Promise<HashChain | null>

/**
 * Sessions by (model, salt, world size, request id). Two tenants may use one request id and never meet. Tokens that come
 * with a request are compared with those of the session, whose hashes are used only where they agree. Bounded in number
 * and in bytes of tokens: the session used longest ago is closed for a new one.
 */
export class MpSessions {
  readonly #sessions: LRUCache<string, Counted>
  /** Sessions that a store opened, by `storedAs`. */
  readonly #stored = new Map<string, MpSession>()
  readonly #hasher: PromptHasher
  readonly #chunkTokens: number

  constructor(capacity: number, hasher: PromptHasher, chunkTokens: number) {
    this.#hasher = hasher
    this.#chunkTokens = chunkTokens
    this.#sessions = new LRUCache({
      max: capacity,
      maxSize: TOKEN_BYTES_MAX,
      sizeCalculation: ({ session: { tokens } }) =>
        tokens.byteLength + Math.ceil(tokens.length / chunkTokens) * HASH_BYTES + 1,
      noDisposeOnSet: true,
      dispose: ({ session }) => this.#end(session),
    })
  }

  get count(): number {
    return this.#sessions.size
  }

  /** The session of a request, made at the first call, with these tokens. @param storer whose store opens it. */
  open(space: SpaceId, requestId: string, tokens: Uint32Array, storer: Client | null = null): MpSession {
    const key = `${space}:${requestId}`
    const found = this.#sessions.get(key)?.session
    if (found === undefined) {
      const storedAs = storer === null ? null : nameOf(storer, requestId)
      const session = { space, tokens, chain: new HashChain(0), hashing: null, hold: null, isOpen: true, storedAs }
      this.#sessions.set(key, { session })
      if (storedAs !== null) this.#stored.set(storedAs, session)
      return session
    }
    if (!isPrefix(found.tokens, tokens)) {
      if (!isPrefix(tokens, found.tokens)) this.#restart(found)
      else return found
    }
    if (tokens.length > found.tokens.length) {
      found.tokens = tokens
      this.#sessions.set(key, { session: found })
    }
    return found
  }

  find(space: SpaceId, requestId: string): MpSession | undefined {
    return this.#sessions.get(`${space}:${requestId}`)?.session
  }

  /** Whether the first `end` tokens of a request are those of the session. */
  knows(session: MpSession, tokens: Uint32Array, end: number): boolean {
    return end <= tokens.length && isPrefix(tokens.subarray(0, end), session.tokens)
  }

  close(space: SpaceId, requestId: string): void {
    this.#sessions.delete(`${space}:${requestId}`)
  }

  /** A client ends a request that it stored and never looked up: too short for it, for instance. */
  endStored(client: Client, requestId: string): void {
    const session = this.#stored.get(nameOf(client, requestId))
    if (session !== undefined) this.close(session.space, requestId)
  }

  closeAll(): void {
    this.#sessions.clear()
  }

  /**
   * The hashes of the first `chunks` whole chunks of the session's tokens: at once when they are known or few, later when
   * not. The chain may be longer.
   *
   * @param client whose turn of the hashing it takes.
   * @returns null when nobody needs them any more: the client is gone, the session has other tokens, or, unless
   *   `isForStore`, it has ended. @throws CacheError TOO_MANY_PROMPTS, later
   */
  chainOf(session: MpSession, chunks: number, client: Client, isForStore: boolean): Chain {
    const { chain, tokens, space } = session
    if (chain.count >= chunks) return chain
    if (session.hashing !== null) return this.#later(session, chunks, client, isForStore)
    const chunkTokens = this.#chunkTokens
    const prompt = { tokens: tokens.subarray(0, chunks * chunkTokens), chunkTokens, space, asker: client }
    const done = this.#hasher.extend(chain, prompt)
    if (done === true) return chain
    const hashing = done.finally(() => {
      if (session.hashing === hashing) session.hashing = null
    })
    session.hashing = hashing
    return this.#later(session, chunks, client, isForStore)
  }

  /** Once the hashing under way is over, whoever had asked for it. */
  async #later(session: MpSession, chunks: number, client: Client, isForStore: boolean): Promise<HashChain | null> {
    const { chain } = session
    await session.hashing
    const isWanted = session.chain === chain && !client.isGone && (session.isOpen || isForStore)
    return isWanted ? this.chainOf(session, chunks, client, isForStore) : null
  }

  /** Another prompt under an old request id. */
  #restart(session: MpSession): void {
    this.#hasher.cancel(session.chain)
    session.tokens = NO_TOKENS
    session.chain = new HashChain(0)
    session.hashing = null
    session.hold?.endSession()
    session.hold = null
  }

  #end(session: MpSession): void {
    session.isOpen = false
    if (session.storedAs !== null && this.#stored.get(session.storedAs) === session)
      this.#stored.delete(session.storedAs)
    this.#hasher.cancel(session.chain)
    session.hold?.endSession()
  }
}

function nameOf({ peer }: Client, requestId: string): string {
  return `${peer.length} ${peer}${requestId}`
}

/** The hashes of the first chunks, for a lookup that outlives further hashing. */
export function firstOf(chain: HashChain, chunks: number): HashChain {
  return HashChain.of(chain.bytes.subarray(0, chunks * HASH_BYTES))
}

function isPrefix(shorter: Uint32Array, longer: Uint32Array): boolean {
  if (shorter.length > longer.length) return false
  if (shorter.buffer === longer.buffer && shorter.byteOffset === longer.byteOffset) return true
  return Buffer.compare(bytesOf(shorter), bytesOf(longer.subarray(0, shorter.length))) === 0
}

function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength)
}
