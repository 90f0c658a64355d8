import type { Clock } from '../../../core/clock.ts'
import { CacheError } from '../../../core/errors.ts'
import type { KeyWords } from '../../key-words.ts'
import { HEADER_BYTES, readHeader } from '../../object-format.ts'
import { NO_NODE, ObjectIndex } from '../../object-index.ts'
import { FITS, NO_ROOM, ObjectRoom } from '../../object-room.ts'
import { isOwnAncestor } from '../../own-ancestor.ts'
import { sortByStamp } from '../../sort-by-stamp.ts'
import { type SpaceEntry, SpaceTable, spaceDigest } from '../../space-table.ts'
import { type ObjectName, objectKeyOf, objectPattern, parseObjectKey } from './object-keys.ts'
import type { RedisAdapterOptions } from './options.ts'
import { command, encodeWords, type RedisCommand } from './redis-command.ts'
import { untilAbort } from './redis-node.ts'
import type { RedisServers } from './redis-servers.ts'

/** Objects of an unknown space that are asked who they are, before the space is left alone. */
const WITNESSES_MAX = 4

/**
 * What lies under a prefix, as this engine knows it: every object that it wrote, read or saw in a scan. The servers
 * decide what is there; the index says how much it is, and what goes first when there is too much.
 *
 * Several engines share a prefix. Each sees at once what itself does, and with the next scan what the others did.
 * Until then the others' new objects are in no sum, so that together they may pass the capacity by what they write
 * between two scans.
 */
export class RedisPool {
  readonly spaces = new SpaceTable()
  readonly index = new ObjectIndex(1024, this.spaces)
  readonly #options: RedisAdapterOptions
  readonly #servers: RedisServers
  readonly #clock: Clock
  readonly #byDigest = new Map<string, SpaceEntry>()
  readonly room: ObjectRoom
  /** Names that are being deleted. Whoever still reads them reads what goes. */
  readonly #leaving = new Set<string>()
  /** While a scan runs: nodes published and names deleted since it began. The scan knows less of them. */
  #published: Set<number> | undefined
  #deleted: Set<string> | undefined
  #scanning: Promise<void> | undefined
  #scannedAtMs = Number.NEGATIVE_INFINITY

  constructor(options: RedisAdapterOptions, servers: RedisServers, clock: Clock) {
    this.#options = options
    this.#servers = servers
    this.#clock = clock
    this.room = new ObjectRoom(this.index, this.spaces, options.capacityBytes)
  }

  /** Whether more is held than the capacity: others stored too. */
  get isOver(): boolean {
    const { capacityBytes } = this.#options
    return capacityBytes > 0 && this.index.heldBytes > capacityBytes
  }

  /** Whether a scan is due and none runs. */
  get isScanDue(): boolean {
    return this.#scanning === undefined && this.#clock.nowMs() - this.#scannedAtMs >= this.#options.rescanMs
  }

  /** What is known may be wrong: the next scan is due now. */
  distrust(): void {
    this.#scannedAtMs = Number.NEGATIVE_INFINITY
  }

  open(space: SpaceEntry['space']): SpaceEntry {
    const entry = this.spaces.open(space)
    this.#byDigest.set(entry.digest, entry)
    return entry
  }

  /** The name of an object, held or pending. */
  keyOf(node: number): string {
    const { digest } = this.spaces.byId(this.index.spaceOf(node))
    return objectKeyOf(this.#options.prefix, digest, this.index.hashOf(node), this.index.parentHashOf(node))
  }

  /** A pending object is there. */
  publish(node: number): void {
    this.index.publish(node)
    this.#published?.add(node)
  }

  /** An object that is there although nobody said so. Key `key` of the words names it. @returns NO_NODE when it is not held. */
  admit(space: SpaceEntry, hashes: KeyWords, parents: KeyWords, key: number): number {
    const known = this.index.find(space.id, hashes, key)
    if (this.index.isHeld(known)) return known
    if (!this.index.isAbsent(known)) return NO_NODE // being written: that knows better
    if (isOwnAncestor(this.index, space.id, hashes, parents, key)) return NO_NODE
    const node = this.index.begin(space.id, hashes, parents, key, HEADER_BYTES + space.space.shardBytes)
    const isLeaving = this.#leaving.size > 0 && this.#leaving.has(this.keyOf(node))
    if (isLeaving) this.index.cancel(node)
    else this.publish(node)
    return isLeaving ? NO_NODE : node
  }

  /** A held object is there no more. */
  forget(node: number): void {
    this.#deleted?.add(this.keyOf(node))
    this.index.leave(node)
    this.index.gone(node)
  }

  /** As `forget`, by key `key` of the words; nothing when it is not held. */
  forgetIfHeld(space: SpaceEntry, hashes: KeyWords, key: number): void {
    const node = this.index.find(space.id, hashes, key)
    if (this.index.isHeld(node)) this.forget(node)
  }

  /** A held object leaves the index; its name is the caller's to `unlink`. */
  take(node: number): string {
    const key = this.keyOf(node)
    this.#leaving.add(key)
    this.forget(node)
    return key
  }

  /**
   * Chooses what goes so that everything begun fits, and the salt of a space keeps its quota.
   * @param victims out: names to `unlink` before anything is written.
   * @returns false when there is not enough to evict.
   */
  makeRoom(space: number, victims: string[]): boolean {
    for (let victim = this.room.next(space); victim !== FITS; victim = this.room.next(space)) {
      if (victim === NO_ROOM) return false
      victims.push(this.take(victim))
      this.room.noteEvicted()
    }
    return true
  }

  /** Evicts what is too much by the capacity and the quotas as they are now. */
  async trim(signal: AbortSignal): Promise<void> {
    const victims: string[] = []
    const evict = (next: () => number) => {
      for (let victim = next(); victim !== FITS && victim !== NO_ROOM; victim = next()) {
        victims.push(this.take(victim))
        this.room.noteEvicted()
      }
    }
    evict(() => this.room.nextOver())
    evict(() => this.room.next())
    await this.unlink(victims, signal)
  }

  /** Deletes objects that left the index. What could not be deleted is found again by the next scan. */
  async unlink(keys: readonly string[], signal: AbortSignal): Promise<{ removed: number; failed: number }> {
    const commands = keys.map((key) => command(key, 'UNLINK', key))
    await this.#servers.run('questions', commands, signal)
    let removed = 0
    let failed = 0
    for (const { key, reply } of commands) {
      this.#leaving.delete(key)
      if (typeof reply === 'number') removed += reply
      else failed += 1
    }
    if (failed > 0) this.distrust()
    return { removed, failed }
  }

  /**
   * Brings the index in line with the servers. One scan runs at a time; a second waits for the first.
   * @param isFirst also asks how long each object was not used, for the order of eviction.
   * @throws CacheError L2_*
   */
  scan(signal: AbortSignal, isFirst = false): Promise<void> {
    this.#scanning ??= this.#scan(signal, isFirst).finally(() => {
      this.#scanning = undefined
      this.#published = undefined
      this.#deleted = undefined
    })
    return untilAbort(this.#scanning, signal)
  }

  async #scan(signal: AbortSignal, isFirst: boolean): Promise<void> {
    const startMs = this.#clock.nowMs()
    const published = new Set<number>()
    const seen = new Set<number>()
    this.#published = published
    this.#deleted = new Set()
    const prior = new Set(this.index.held())
    const strangers = new Map<string, number>()
    await this.#servers.scan(objectPattern(this.#options.prefix), signal, async (keys) => {
      const names = keys.map((key) => ({ key, name: parseObjectKey(this.#options.prefix, key) }))
      const added: { node: number; key: string }[] = []
      for (const { key, name } of names) {
        if (name === undefined) continue
        const space = this.#byDigest.get(name.digest) ?? (await this.#identify(key, name, strangers, signal))
        if (space === undefined || this.#deleted!.has(key)) continue
        const isKnown = this.index.isHeld(this.index.find(space.id, name.hash, 0))
        const node = this.admit(space, name.hash, name.parent, 0)
        seen.add(node)
        if (!isKnown && node !== NO_NODE) added.push({ node, key })
      }
      if (isFirst) await this.#stamp(added, signal)
    })
    for (const node of prior) {
      if (!seen.has(node) && !published.has(node) && this.index.isHeld(node)) this.forget(node)
    }
    if (isFirst) sortByStamp(this.index)
    this.#scannedAtMs = startMs
  }

  /** The space of a digest that was never heard of, from the header of one of its objects. */
  async #identify(key: string, name: ObjectName, strangers: Map<string, number>, signal: AbortSignal) {
    const asked = strangers.get(name.digest) ?? 0
    if (asked >= WITNESSES_MAX) return undefined
    strangers.set(name.digest, asked + 1)
    const header = Buffer.alloc(HEADER_BYTES)
    const words = encodeWords(['GETRANGE', key, '0', String(HEADER_BYTES - 1)])
    const bytes = words.length + HEADER_BYTES
    const question: RedisCommand = { key, parts: () => [words], bytes, places: [header], reply: undefined }
    await this.#servers.run('questions', [question], signal)
    if (question.reply instanceof CacheError) throw question.reply
    const found = readHeader(header)
    return typeof found !== 'string' && spaceDigest(found.space) === name.digest ? this.open(found.space) : undefined
  }

  /** Notes when objects were used last, as their server tells. */
  async #stamp(added: readonly { node: number; key: string }[], signal: AbortSignal): Promise<void> {
    const commands = added.map(({ key }) => command(key, 'OBJECT', 'IDLETIME', key))
    await this.#servers.run('questions', commands, signal)
    for (const [at, { reply }] of commands.entries()) {
      const idleMs = typeof reply === 'number' ? reply * 1000 : 0 // unknown where the server counts uses instead
      if (this.index.isHeld(added[at]!.node)) {
        this.index.setStamp(added[at]!.node, Math.max(1, this.#clock.wallMs() - idleMs))
      }
    }
  }
}
