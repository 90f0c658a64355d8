import type { Clock } from '../../../core/clock.ts'
import { CacheError } from '../../../core/errors.ts'
import { HASH_BYTES } from '../../../core/hash-chain.ts'
import {
  type AdapterUsage,
  type KeyBatch,
  type L2Adapter,
  OUTCOME_CORRUPT,
  OUTCOME_FAILED,
  OUTCOME_NOT_FOUND,
  OUTCOME_OK,
} from '../../adapter.ts'
import { spaceDigest } from '../../space-table.ts'
import { Lanes } from '../lanes.ts'
import type { PeerAdapterOptions } from './options.ts'
import { PeerClient } from './peer-client.ts'
import { PeerList, type PeerListParts } from './peer-list.ts'

export interface PeerParts extends Omit<PeerListParts, 'connect'> {
  readonly clock: Clock
  readonly readFile: (path: string) => Promise<string>
}

/** Shards whose holders are remembered from a lookup to its load. */
const HOLDERS_MAX = 65_536

/**
 * Other engines as an L2 adapter: what they have in L1 is found and fetched over their HTTP interface.
 *
 *   lookup   all peers at once; ends when every key is found, or all have answered or failed; holders are remembered
 *   load     each shard from one of its holders, the next one when that fails; unknown holders are asked for again,
 *            and so are all other peers about a shard that none of its known holders gave: the lookup may have ended
 *            before they had answered
 *
 * A peer answers from its L1 alone, so a question goes one hop and never round. Nothing is stored with peers, and
 * nothing of theirs is removed. A peer that is down is left alone by a circuit of its own; the others are still asked.
 */
export class PeerAdapter implements L2Adapter {
  readonly type = 'peer'
  readonly isPeer = true
  readonly #options: PeerAdapterOptions
  readonly #parts: PeerParts
  readonly #peers: PeerList
  readonly #lanes: Lanes<undefined>
  /** By space and hash; the first in is the first out. */
  readonly #holders = new Map<string, PeerClient[]>()
  #token: string
  #isOpen = false
  #turn = 0
  #checksumFailures = 0

  constructor(options: PeerAdapterOptions, parts: PeerParts) {
    const { answerMs, parallelism } = options
    this.#options = options
    this.#parts = parts
    this.#token = options.token
    this.#lanes = new Lanes(parallelism, () => undefined)
    const common = { clock: parts.clock, token: () => this.#token, connections: parallelism, answerMs }
    this.#peers = new PeerList(options, {
      ...parts,
      connect: (origin, serverName) =>
        new PeerClient(origin, { ...common, ...(serverName === undefined ? {} : { serverName }) }),
    })
  }

  /** Peers need not be there yet. @throws CacheError L2_UNAVAILABLE when the token's file cannot be read. */
  async open(): Promise<void> {
    await this.#readToken()
    await this.#peers.start(() => this.#readToken().catch(() => undefined))
    this.#isOpen = true
  }

  async lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    this.#check(signal)
    found.fill(0, 0, batch.count)
    for (const [key, peers] of (await this.#ask(batch, signal)).entries()) found[key] = peers.length > 0 ? 1 : 0
  }

  /** Stores nothing: see `isPeer`. */
  async store(
    batch: KeyBatch,
    _sources: readonly Uint8Array[],
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    this.#check(signal)
    outcomes.fill(OUTCOME_FAILED, 0, batch.count)
    return 0
  }

  async load(
    batch: KeyBatch,
    targets: readonly Uint8Array[],
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    this.#check(signal)
    outcomes.fill(OUTCOME_FAILED, 0, batch.count)
    const holders = await this.#holdersOf(batch, signal)
    await this.#lanes.run(batch.count, signal, async (key) => {
      outcomes[key] = await this.#fetch(batch, key, holders[key]!, targets[key]!, signal)
    })
    await this.#fetchElsewhere(batch, holders, targets, outcomes, signal)
    let loaded = 0
    for (let key = 0; key < batch.count; key += 1) if (outcomes[key] === OUTCOME_OK) loaded += 1
    return loaded * batch.space.shardBytes
  }

  /** What peers hold is theirs. */
  async remove(): Promise<number> {
    return 0
  }

  async clear(): Promise<number> {
    return 0
  }

  usage(): AdapterUsage {
    return { bytes: 0, objects: 0, capacityBytes: 0, evictedObjects: 0, checksumFailures: this.#checksumFailures }
  }

  async close(): Promise<void> {
    this.#isOpen = false
    this.#holders.clear()
    await this.#peers.close()
  }

  #check(signal: AbortSignal): void {
    if (!this.#isOpen) throw new CacheError('L2_UNAVAILABLE', 'the peer adapter is not open')
    if (signal.aborted) throw new CacheError('L2_TIMEOUT', 'the batch was given up before it began')
  }

  async #readToken(): Promise<void> {
    const { tokenFile } = this.#options
    if (tokenFile === '') return
    try {
      this.#token = (await this.#parts.readFile(tokenFile)).trim()
    } catch (error) {
      const message = `the token file ${tokenFile} cannot be read (${(error as NodeJS.ErrnoException).code})`
      throw new CacheError('L2_UNAVAILABLE', message, { field: 'token-file' }, error)
    }
  }

  /**
   * Asks all peers that are up, and remembers who has what.
   * @param without by key: peers that are not to be answers, because they failed to give it.
   * @returns the peers that have key i, as far as they have answered by then.
   * @throws CacheError L2_UNAVAILABLE when peers were asked and all failed.
   */
  async #ask(
    batch: KeyBatch,
    signal: AbortSignal,
    without: readonly (readonly PeerClient[])[] = [],
  ): Promise<PeerClient[][]> {
    const isOut = (peer: PeerClient, key: number) => without[key]?.includes(peer) === true
    const isWanted = (peer: PeerClient) => without.length === 0 || without.some((_, key) => !isOut(peer, key))
    const asked = this.#peers.all().filter((peer) => peer.isUsable && isWanted(peer))
    const holders = Array.from({ length: batch.count }, (): PeerClient[] => [])
    const all = Promise.withResolvers<void>()
    let missing = batch.count
    let failed = 0
    const names = namesOf(batch)
    const answers = asked.map(async (peer) => {
      const found = await peer.lookup(batch, signal)
      if (found === undefined) failed += 1
      for (let key = 0; key < batch.count; key += 1) {
        if (found?.[key] !== 1 || isOut(peer, key)) continue
        if (holders[key]!.length === 0) missing -= 1
        holders[key]!.push(peer)
        this.#note(names[key]!, holders[key]!)
      }
      if (missing === 0) all.resolve()
    })
    await Promise.race([all.promise, Promise.all(answers)])
    if (failed < asked.length || failed === 0 || signal.aborted) return holders
    const reasons = asked.map(({ origin, lastError }) => `${origin}: ${textOf(lastError)}`)
    throw new CacheError('L2_UNAVAILABLE', `no peer answered (${reasons.slice(0, 4).join('; ')})`)
  }

  /** The holders that lookups have told of; the others are asked for now. */
  async #holdersOf(batch: KeyBatch, signal: AbortSignal): Promise<PeerClient[][]> {
    const names = namesOf(batch)
    const known = names.map((name) => this.#holders.get(name) ?? [])
    const unknown = known.flatMap((peers, key) => (peers.some(({ isUsable }) => isUsable) ? [] : [key]))
    if (unknown.length === 0) return known
    let asked: PeerClient[][]
    try {
      asked = await this.#ask(partOf(batch, unknown), signal)
    } catch (error) {
      if (unknown.length === batch.count) throw error
      return known
    }
    for (const [at, key] of unknown.entries()) known[key] = asked[at]!
    return known
  }

  /** Tries once more what every known holder failed to give, with peers that have not been tried. */
  async #fetchElsewhere(
    batch: KeyBatch,
    tried: readonly (readonly PeerClient[])[],
    targets: readonly Uint8Array[],
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<void> {
    // Nobody has a shard without a holder: all were asked.
    const left = tried.flatMap((peers, key) => (peers.length > 0 && outcomes[key] !== OUTCOME_OK ? [key] : []))
    if (left.length === 0 || signal.aborted) return
    const others = await this.#ask(
      partOf(batch, left),
      signal,
      left.map((key) => tried[key]!),
    ).catch(() => [])
    await this.#lanes.run(others.length, signal, async (at) => {
      const key = left[at]!
      if (others[at]!.length === 0) return
      const outcome = await this.#fetch(batch, key, others[at]!, targets[key]!, signal)
      if (outcome === OUTCOME_OK) outcomes[key] = outcome
    })
  }

  async #fetch(
    batch: KeyBatch,
    key: number,
    holders: readonly PeerClient[],
    target: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    let worst = OUTCOME_NOT_FOUND
    this.#turn += 1
    const first = this.#turn // other fetches take their turns meanwhile
    for (let at = 0; at < holders.length && !signal.aborted; at += 1) {
      const peer = holders[(first + at) % holders.length]!
      const outcome = await peer.fetch(batch, key, target, signal)
      if (outcome === OUTCOME_OK) return OUTCOME_OK
      if (outcome === OUTCOME_CORRUPT) this.#checksumFailures += 1
      if (outcome === OUTCOME_CORRUPT || worst === OUTCOME_NOT_FOUND) worst = outcome
    }
    this.#holders.delete(namesOf(partOf(batch, [key]))[0]!)
    return signal.aborted ? OUTCOME_FAILED : worst
  }

  #note(name: string, peers: PeerClient[]): void {
    this.#holders.delete(name)
    this.#holders.set(name, peers)
    if (this.#holders.size <= HOLDERS_MAX) return
    for (const oldest of this.#holders.keys()) {
      this.#holders.delete(oldest)
      return
    }
  }
}

/** What the keys of a batch are called in one map over all spaces. */
function namesOf({ space, count, hashes }: KeyBatch): string[] {
  const digest = spaceDigest(space)
  const bytes = Buffer.from(hashes.buffer, hashes.byteOffset, count * HASH_BYTES)
  return Array.from(
    { length: count },
    (_, at) => digest + bytes.toString('hex', at * HASH_BYTES, (at + 1) * HASH_BYTES),
  )
}

/** Some keys of a batch. */
function partOf({ space, hashes, parents, traceparent }: KeyBatch, keys: readonly number[]): KeyBatch {
  const pick = (bytes: Uint8Array) => {
    const picked = new Uint8Array(keys.length * HASH_BYTES)
    for (const [at, key] of keys.entries()) {
      picked.set(bytes.subarray(key * HASH_BYTES, (key + 1) * HASH_BYTES), at * HASH_BYTES)
    }
    return picked
  }
  return { space, count: keys.length, hashes: pick(hashes), parents: pick(parents), traceparent }
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
