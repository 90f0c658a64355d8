import { readFileSync } from 'node:fs'
import { createClient, createCluster } from 'redis'
import type { Clock } from '../../../core/clock.ts'
import { CacheError } from '../../../core/errors.ts'
import { clusterSlot } from './cluster-slot.ts'
import { parseRedisAddress, parseRedisUrl, type RedisAdapterOptions, type RedisAddress } from './options.ts'
import { command, type RedisCommand, ServerError } from './redis-command.ts'
import { type Lane, type NodeParts, RedisNode, untilAbort } from './redis-node.ts'

/** Names asked for at a time by SCAN. */
const SCAN_COUNT = 1000
/** Times a command follows MOVED and ASK. */
const REDIRECTS_MAX = 4
const RECONNECT_MAX_MS = 5_000

export interface ServersParts {
  readonly clock: Clock
  /** 0..1 */
  readonly random: () => number
}

/** The part of node-redis that is used: what it knows of the servers, and SCAN. */
interface Control {
  /** The server of a Cluster that has a slot, as far as is known. */
  addressOf(slot: number): RedisAddress
  /** One walk over the names of each server that has any. */
  scans(match: string): Promise<AsyncIterable<readonly string[]>[]>
  /** Learns anew where things are. */
  refresh(key: string): void
  connect(): Promise<unknown>
  destroy(): void
}

/**
 * The servers behind one adapter: a single one, or the masters of a Cluster. node-redis finds out which they are and
 * walks over their names; objects and questions take connections of our own (`RedisConnection`), which read straight
 * into the arena.
 */
export class RedisServers {
  readonly #options: RedisAdapterOptions
  readonly #parts: NodeParts
  readonly #seeds: readonly RedisAddress[]
  readonly #control: Control
  /** By host:port. */
  readonly #nodes = new Map<string, RedisNode>()

  /** @throws CacheError CONFIG_INVALID */
  constructor(options: RedisAdapterOptions, parts: ServersParts) {
    const target = parseRedisUrl(options.url)
    const others = options.nodes.map(parseRedisAddress)
    if (target === undefined || others.includes(undefined)) {
      throw new CacheError('CONFIG_INVALID', 'the url or nodes of a redis adapter cannot be read', { field: 'url' })
    }
    this.#options = options
    this.#seeds = [{ host: target.host, port: target.port }, ...(others as RedisAddress[])]
    const tls = () => (target.isTls ? certificates(options) : null)
    const credentials = () => ({ username: options.username, password: passwordOf(options) })
    const { connectTimeoutMs, connections, pipelineBytes: windowBytes } = options
    const { database } = target
    this.#parts = { ...parts, connectTimeoutMs, connections, windowBytes, database, tls, credentials }
    this.#control = options.isCluster ? this.#clusterControl() : this.#singleControl()
  }

  /** @throws CacheError L2_UNAVAILABLE with the reason of the server that was asked last */
  async open(): Promise<void> {
    await this.#greet()
    const timeout = new AbortController()
    const timer = this.#parts.clock.schedule(this.#options.connectTimeoutMs, () => timeout.abort())
    try {
      await untilAbort(this.#control.connect(), timeout.signal)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      throw new CacheError('L2_UNAVAILABLE', `the Redis servers cannot be used: ${reason}`, {}, error)
    } finally {
      timer.cancel()
    }
  }

  /** Resolves when every command has its reply. Never rejects. */
  async run(lane: Lane, commands: readonly RedisCommand[], signal: AbortSignal | undefined): Promise<void> {
    let left: RedisCommand[] = []
    await this.#runGroups(lane, this.#byNode(commands), signal)
    for (let redirects = 0; redirects < REDIRECTS_MAX; redirects += 1) {
      left = commands.filter(({ reply }) => reply instanceof ServerError && isRedirect(reply))
      if (left.length === 0) return
      this.#control.refresh(left[0]!.key)
      await this.#runGroups(lane, this.#redirected(left), signal)
    }
  }

  /** Visits the names under a pattern, a page at a time; one may come twice. @throws CacheError L2_* */
  async scan(match: string, signal: AbortSignal, visit: (keys: readonly string[]) => Promise<void>): Promise<void> {
    try {
      for (const pages of await untilAbort(this.#control.scans(match), signal)) {
        const walk = pages[Symbol.asyncIterator]()
        for (;;) {
          const page = await untilAbort(walk.next(), signal)
          if (page.done === true) break
          await visit(page.value)
        }
      }
    } catch (error) {
      if (error instanceof CacheError) throw error
      const reason = error instanceof Error ? error.message : String(error)
      throw new CacheError('L2_UNAVAILABLE', `the names of objects in Redis cannot be read: ${reason}`, {}, error)
    }
  }

  close(): void {
    for (const node of this.#nodes.values()) node.close()
    this.#control.destroy()
  }

  /** Asks the servers that were configured, until one lets us in. */
  async #greet(): Promise<void> {
    let last: unknown
    for (const address of this.#seeds) {
      const ping = command('', 'PING')
      await this.#nodeAt(address).run('questions', [ping], undefined)
      if (!(ping.reply instanceof Error)) return
      last = ping.reply
    }
    throw last
  }

  #byNode(commands: readonly RedisCommand[]): Map<RedisNode, RedisCommand[]> {
    const groups = new Map<RedisNode, RedisCommand[]>()
    for (const one of commands) {
      const address = this.#options.isCluster ? this.#control.addressOf(clusterSlot(one.key)) : this.#seeds[0]!
      addTo(groups, this.#nodeAt(address), one)
    }
    return groups
  }

  /** Commands by the node that a reply named; ASK wants to be announced. */
  #redirected(commands: readonly RedisCommand[]): Map<RedisNode, RedisCommand[]> {
    const groups = new Map<RedisNode, RedisCommand[]>()
    for (const one of commands) {
      const { word, message } = one.reply as ServerError
      const address = parseRedisAddress(message.split(' ')[2] ?? '') ?? this.#seeds[0]!
      const node = this.#nodeAt(address)
      if (word === 'ASK') addTo(groups, node, command('', 'ASKING'))
      one.reply = undefined
      addTo(groups, node, one)
    }
    return groups
  }

  async #runGroups(lane: Lane, groups: ReadonlyMap<RedisNode, RedisCommand[]>, signal: AbortSignal | undefined) {
    await Promise.all(Array.from(groups, ([node, commands]) => node.run(lane, commands, signal)))
  }

  #nodeAt(address: RedisAddress): RedisNode {
    const name = `${address.host}:${address.port}`
    let node = this.#nodes.get(name)
    if (node === undefined) {
      node = new RedisNode(address, this.#parts)
      this.#nodes.set(name, node)
    }
    return node
  }

  #singleControl(): Control {
    const { database } = this.#parts
    const client = createClient({ ...this.#clientOptions(this.#seeds[0]!), database })
    client.on('error', () => undefined) // told by the commands that fail
    return {
      addressOf: () => this.#seeds[0]!,
      scans: async (match) => [client.scanIterator({ MATCH: match, COUNT: SCAN_COUNT })],
      refresh: () => undefined,
      connect: () => client.connect(),
      destroy: () => client.destroy(),
    }
  }

  #clusterControl(): Control {
    const cluster = createCluster({
      RESP: 2,
      rootNodes: this.#seeds.map((seed) => this.#clientOptions(seed)),
      defaults: this.#clientOptions(),
      topologyRefreshOnReconnectionAttemptStrategy: 1_000,
    })
    cluster.on('error', () => undefined)
    cluster.on('node-error', () => undefined)
    return {
      addressOf: (slot) => cluster.slots[slot]?.master ?? this.#seeds[0]!,
      scans: async (match) => {
        const clients = await Promise.all(cluster.masters.map((master) => cluster.nodeClient(master)))
        return clients.map((client) => client.scanIterator({ MATCH: match, COUNT: SCAN_COUNT }))
      },
      refresh: (key) => void cluster.exists(key).catch(() => undefined), // follows MOVED and learns from it
      connect: () => cluster.connect(),
      destroy: () => cluster.destroy(),
    }
  }

  #clientOptions(address?: RedisAddress) {
    const { username, connectTimeoutMs } = this.#options
    const { host, port } = address ?? {}
    const tls = this.#parts.tls()
    return {
      RESP: 2 as const,
      socket: {
        ...(host === undefined ? {} : { host, port }),
        ...(tls === null ? {} : { tls: true as const, ...tls }),
        connectTimeout: connectTimeoutMs,
        reconnectStrategy: (tries: number) => Math.min(RECONNECT_MAX_MS, 100 * 2 ** tries),
      },
      credentialsProvider: {
        type: 'async-credentials-provider' as const,
        credentials: async () => {
          const password = passwordOf(this.#options)
          return { ...(username === '' ? {} : { username }), ...(password === '' ? {} : { password }) }
        },
      },
      disableOfflineQueue: true,
      disableClientInfo: true,
      maintNotifications: 'disabled' as const,
    }
  }
}

function isRedirect({ word }: ServerError): boolean {
  return word === 'MOVED' || word === 'ASK'
}

function addTo(groups: Map<RedisNode, RedisCommand[]>, node: RedisNode, one: RedisCommand): void {
  const group = groups.get(node)
  if (group === undefined) groups.set(node, [one])
  else group.push(one)
}

function passwordOf({ password, passwordFile }: RedisAdapterOptions): string {
  return passwordFile === ''
    ? password
    : read(passwordFile, 'password-file')
        .toString('utf8')
        .replace(/\r?\n$/, '')
}

function certificates({ tlsCaFile, tlsCertFile, tlsKeyFile }: RedisAdapterOptions) {
  return {
    ...(tlsCaFile === '' ? {} : { ca: read(tlsCaFile, 'tls-ca') }),
    ...(tlsCertFile === '' ? {} : { cert: read(tlsCertFile, 'tls-cert') }),
    ...(tlsKeyFile === '' ? {} : { key: read(tlsKeyFile, 'tls-key') }),
  }
}

function read(path: string, field: string): Buffer {
  try {
    return readFileSync(path)
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unknown reason'
    const message = `the file ${path} cannot be read (${reason}): check ${field}`
    throw new CacheError('L2_UNAVAILABLE', message, { field, path }, error)
  }
}
