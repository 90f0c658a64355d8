import type { Clock } from '../../core/clock.ts'
import type { Engine } from '../../engine/engine.ts'
import type { ModelRegistry } from '../../engine/model-registry.ts'
import type { PromptHasher } from '../../engine/prompt-hasher.ts'
import type { MpOptions } from '../options.ts'
import { Dispatcher } from './dispatcher.ts'
import { GoneWorkers } from './gone-workers.ts'
import { InstanceTable } from './instances.ts'
import { newCounts } from './mp-counts.ts'
import { MpSessions } from './mp-sessions.ts'
import type { MpLog, MpParts, RegisteredWorker, WireSegment, WorkerJournal } from './parts.ts'
import { Quarantine } from './quarantine.ts'
import { MpRouter, type Refusal } from './router.ts'

/** Also those that have not said who they are, and those about to be closed. */
const CONNECTIONS_A_CLIENT = 4
/** Most prompts are hashed in less. */
const QUERY_HOLD_MS = 1

const REFUSALS: { readonly [Why in Refusal]: string } = {
  not_zmtp: 'the peer does not speak ZMTP',
  old_version: 'the peer speaks ZMTP 1 or 2, and version 3 is spoken here: ZeroMQ 4.0 or newer',
  mechanism: 'the peer wants PLAIN, CURVE or another mechanism, and only NULL is spoken here',
  handshake: 'the peer broke off the handshake of ZMTP, or made a mistake in it',
  socket_type: 'the peer is no DEALER, REQ or ROUTER',
  identity: 'the peer has an identity that begins with zero, or is longer than 255 bytes',
  taken: 'the peer has the identity of another one that is still connected',
  frame: 'a frame of the peer is malformed',
  too_long: 'a message of the peer is longer than 20 MiB, or has too many frames',
  no_memory: 'too much memory is held by messages that came in part',
  refused: 'the peer refused us',
  too_many: 'there are too many: see --mp-clients',
}

export interface MpServerParts {
  readonly engine: Engine
  readonly models: ModelRegistry
  readonly hasher: PromptHasher
  readonly clock: Clock
  /** See `MpParts.queryHoldMs`; absent: 1. */
  readonly queryHoldMs?: number
  /** By part of L1. */
  readonly segments: readonly WireSegment[]
  readonly log: MpLog
  /** Absent = the next engine knows no worker of this one. */
  readonly journal?: WorkerJournal | null
  readonly onCleared?: MpParts['onCleared']
  readonly onGone?: MpParts['onGone']
  readonly onError: (error: unknown) => void
}

/** The MP wire of one engine. Runs on the data thread: answers lie in L1's index, and inference waits for them. */
export class MpServer {
  readonly #options: MpOptions
  readonly #segments: MpServerParts['segments']
  readonly #counts = newCounts()
  readonly #sessions: MpSessions
  readonly #instances: InstanceTable
  readonly #dispatcher: Dispatcher
  readonly #heldBytesMax: number
  /** Slots of workers whose leases have expired. */
  readonly quarantine: Quarantine
  readonly #router: MpRouter
  readonly #log: MpLog
  readonly #refusals = new Set<Refusal>()
  readonly #gone: GoneWorkers

  constructor(options: MpOptions, parts: MpServerParts) {
    const { engine, models, hasher, clock, segments, log, journal = null, onError } = parts
    this.#options = options
    this.#segments = segments
    this.#log = log
    this.#sessions = new MpSessions(engine.options.sessions, hasher, engine.options.chunkTokens)
    this.#instances = new InstanceTable(
      options.clientsMax,
      engine.l1.copies,
      (id) => journal?.gone(id),
      ({ model, worldSize }) => models.confirm(model, worldSize),
    )
    this.#router = new MpRouter({
      clock,
      connectionsMax: CONNECTIONS_A_CLIENT * options.clientsMax,
      onMessage: (peer, frames) => this.#dispatcher.receive(peer, frames),
      onDropped: () => {
        this.#counts.droppedAnswers += 1
      },
      onRefused: (why, wasReady) => this.#refused(why, wasReady),
      onError,
    })
    this.#heldBytesMax = Math.floor(options.heldRatioMax * engine.l1.options.capacityBytes)
    const handled: MpParts = {
      engine,
      models,
      sessions: this.#sessions,
      hasher,
      instances: this.#instances,
      heldBytesMax: this.#heldBytesMax,
      clock,
      queryHoldMs: parts.queryHoldMs ?? QUERY_HOLD_MS,
      counts: this.#counts,
      segments,
      log,
      journal,
      onCleared: parts.onCleared,
      onGone: parts.onGone,
    }
    this.#gone = new GoneWorkers(handled)
    this.quarantine = new Quarantine(handled)
    this.#dispatcher = new Dispatcher(
      {
        clients: options.clientsMax,
        silentMs: options.silentMs,
        graceMs: options.graceMs,
        allowsClear: options.allowClear,
      },
      handled,
      (peer, frames) => this.#router.send(peer, frames),
      onError,
    )
  }

  /** @returns host:port. @throws CacheError PORT_TAKEN, CONFIG_INVALID */
  listen(): Promise<string> {
    return this.#router.listen(this.#options.host, this.#options.port)
  }

  /** Knows the workers of an earlier engine again, which work on with the same memory. Before `listen`. */
  restore(workers: readonly RegisteredWorker[]): void {
    this.#dispatcher.restore(workers)
  }

  /** Takes the workers of a model for dead: their layout is replaced, and none of them was heard of. */
  forgetWorkers(model: string, worldSize: number): void {
    this.#dispatcher.forgetWorkers(model, worldSize)
  }

  /** Takes the silent for dead, frees what dead processes held, and keeps the names of segments. Run by the lease loop. */
  sweep(): void {
    for (const segment of this.#segments) segment.restoreName()
    this.#gone.sweep()
    this.#dispatcher.sweep()
    this.#router.sweep()
  }

  /** A connection was closed for what the peer did. The log has each reason once: peers try again and again. */
  #refused(why: Refusal, wasReady: boolean): void {
    if (wasReady) this.#counts.brokenPeers += 1
    else this.#counts.refusedPeers += 1
    if (this.#refusals.has(why)) return
    this.#refusals.add(why)
    this.#log.warn({ why }, `closed a connection to the MP wire: ${REFUSALS[why]}`)
  }

  /** For `/status`. */
  status() {
    return {
      clients: this.#dispatcher.clientCount,
      instances: this.#instances.liveCount,
      sessions: this.#sessions.count,
      heldBytes: this.#instances.heldBytes,
      heldBytesMax: this.#heldBytesMax,
      ...this.#counts,
    }
  }

  /** Takes no more requests and lets go of what clients hold. */
  close(): void {
    this.#router.close()
    this.#dispatcher.close()
    this.#sessions.closeAll()
  }
}
