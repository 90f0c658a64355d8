import { CacheError } from '../../core/errors.ts'
import { addonOrNull } from '../../native/addon.ts'
import { giveWay } from '../../native/give-way.ts'
import { decodeIncoming, decodeOp, type TokenMemories } from '../../protocol/mp/codec.ts'
import type { ServedOp } from '../../protocol/mp/generations.ts'
import type { Envelope, Incoming, Request, RequestOf } from '../../protocol/mp/messages.ts'
import {
  FALSE,
  intReply,
  NONE,
  NOT_RETRIEVABLE,
  NOTHING_TO_STORE,
  type ReplyPayload,
  textReply,
  textsReply,
} from '../../protocol/mp/replies.ts'
import { TokenCache } from '../../protocol/mp/token-cache.ts'
import { BlockReports } from './block-reports.ts'
import { generationFor } from './client-generation.ts'
import { type Client, ClientTable } from './clients.ts'
import { LongMessages } from './long-messages.ts'
import { LookupHandlers } from './lookup-handlers.ts'
import { type MpParts, REFUSED, type RegisteredWorker, type Reply } from './parts.ts'
import { RecoveredGenerations } from './recovered-generations.ts'
import { TransferHandlers } from './transfer-handlers.ts'
import { WorkerHandlers } from './worker-handlers.ts'

export interface DispatcherOptions {
  /** Peers at most. */
  readonly clients: number
  /** Silence after which a worker or client is taken for dead; the second when it never sent a heartbeat. */
  readonly silentMs: number
  readonly graceMs: number
  /** Whether `clear` is obeyed. */
  readonly allowsClear: boolean
}

/** Sends one answer to a peer: uid, op, and a payload frame or none. */
export type Send = (peer: string, frames: Uint8Array[]) => void

const EXPERIMENTAL = textsReply([])
const OK = textReply('OK')
const WRONG_PATH = 'refused: set lmcache.mp.mp_transfer_mode to engine_driven'
/** `get_experimental` of 0.5.3 and 0.5.4. */
const EXPERIMENTAL_BEFORE_0_5_5 = 40
const WRONG_LAYOUT = 'refused: the log of the kvtier engine says why'

/** The "no" of each operation: what a client understands and lives with. */
const NO: { readonly [Op in ServedOp]: Reply } = {
  lookup: NONE,
  query_prefetch_status: intReply(0),
  wait_prefetch_status: intReply(0),
  free_lookup_locks: NONE,
  end_session: NONE,
  register_kv_cache_engine_driven_context: REFUSED,
  unregister_kv_cache_engine_driven_context: NONE,
  prepare_store: NOTHING_TO_STORE,
  commit_store: FALSE,
  prepare_retrieve: NOT_RETRIEVABLE,
  commit_retrieve: FALSE,
  clear: NONE,
  get_chunk_size: REFUSED,
  negotiate_chunk_size: REFUSED,
  ping: FALSE,
  report_block_allocation: NONE,
  noop: OK,
  get_experimental: EXPERIMENTAL,
}

/** Token lists that are remembered, of each form. */
const KNOWN_LISTS = 256

/** A prompt that takes longer to read than another thread to get its turn. */
const LONG_BYTES = 16 * 1024

/** Operations of one client that are done in the order they came: each waits for the one before. */
const ORDERED = new Set<string>([
  'register_kv_cache_engine_driven_context',
  'unregister_kv_cache_engine_driven_context',
  'prepare_store',
  'commit_store',
  'prepare_retrieve',
  'commit_retrieve',
] satisfies ServedOp[])

/**
 * From a message to its handler, and from the handler's answer to a message. Every request that can be answered is
 * answered, at once or later: a client waits for minutes otherwise. Nothing a peer sends makes it throw.
 *
 * The wire has no errors. A refusal is told to clients that check which operation an answer is for, by naming another
 * one: they raise an error that shows the name. To older ones nothing is said; they give up after their timeout.
 */
export class Dispatcher {
  readonly #parts: MpParts
  readonly #options: DispatcherOptions
  readonly #send: Send
  readonly #onError: (error: unknown) => void
  readonly #clients: ClientTable
  readonly #tokens = {
    ids: new TokenCache(KNOWN_LISTS, addonOrNull()?.readWords ?? null),
    packed: new TokenCache(KNOWN_LISTS),
  }
  readonly #blocks: BlockReports
  readonly #lookups: LookupHandlers
  readonly #transfers: TransferHandlers
  readonly #workers: WorkerHandlers
  readonly #chunkSize: ReplyPayload
  readonly #recovered = new RecoveredGenerations()
  readonly #long: LongMessages

  /** @param onError told of bugs. */
  constructor(options: DispatcherOptions, parts: MpParts, send: Send, onError: (error: unknown) => void) {
    this.#parts = parts
    this.#options = options
    this.#send = send
    this.#onError = onError
    this.#lookups = new LookupHandlers(parts)
    this.#workers = new WorkerHandlers(parts)
    this.#transfers = new TransferHandlers(parts, (instanceId) => this.#workers.heard(instanceId))
    this.#blocks = new BlockReports(parts)
    this.#clients = new ClientTable(options.clients, (client) => {
      this.#lookups.clientGone(client)
      parts.engine.observed.peerGone(client)
    })
    this.#chunkSize = intReply(parts.engine.options.chunkTokens)
    this.#long = new LongMessages({
      readWords: this.#tokens.ids.readWords,
      begin: (client, frames, tokens) => void this.#decode(client, frames, tokens, true),
      perform: (client, frames, tokens) =>
        this.#perform(client, this.#decode(client, frames, tokens ?? this.#tokens, tokens === null)),
      onError,
    })
  }

  get clientCount(): number {
    return this.#clients.count
  }

  /** One message of a peer. The frames may change as soon as this returns. */
  receive(peer: string, frames: readonly Uint8Array[]): void {
    const { counts, clock } = this.#parts
    counts.requests += 1
    const nowMs = clock.nowMs()
    const client = this.#clients.heard(peer, nowMs)
    if (this.#long.take(client, frames)) return
    this.#perform(client, this.#decode(client, frames, this.#tokens, true))
  }

  /** @param isNew a lookup is acknowledged. */
  #decode(client: Client, frames: readonly Uint8Array[], tokens: TokenMemories, isNew: boolean): Incoming {
    return decodeIncoming(frames, generationFor(client, frames, this.#recovered, client.lastSeenMs), {
      tokens,
      onOp: (op, envelope) => {
        // A scheduler waits for it, and it says nothing: the answer is asked for later.
        if (op === 'lookup' && isNew) this.#acknowledge(client, envelope, frames)
      },
    })
  }

  #perform(client: Client, incoming: Incoming): void {
    const { counts } = this.#parts
    if (!client.survivesOtherOps && tellsOfNewer(incoming)) client.survivesOtherOps = true
    switch (incoming.kind) {
      case 'request':
        this.#start(client, incoming.envelope, incoming.request)
        break
      case 'foreign':
        this.#refuseForeign(client, incoming)
        break
      case 'bad_payload':
        counts.badPayloads += 1
        if (incoming.op !== 'lookup') this.#answer(client, incoming.envelope, NO[incoming.op])
        break
      case 'unknown_op':
        counts.unknownOps += 1
        this.#answer(client, incoming.envelope, NONE)
        break
      default:
        counts.malformed += 1
    }
  }

  /** See `MpServer.restore`. */
  restore(workers: readonly RegisteredWorker[]): void {
    for (const worker of workers) {
      this.#workers.restore(worker)
      this.#recovered.add(worker.context.instanceId, worker.generation, this.#parts.clock.nowMs())
    }
  }

  /** See `MpServer.forgetWorkers`. */
  forgetWorkers(model: string, worldSize: number): void {
    this.#workers.forget(model, worldSize)
  }

  /** What is not read yet never will be. */
  close(): void {
    this.#long.close()
  }

  /** Takes the silent for dead. */
  sweep(): void {
    const { silentMs, graceMs } = this.#options
    const nowMs = this.#parts.clock.nowMs()
    this.#workers.sweep(nowMs, silentMs, graceMs)
    this.#clients.sweep(nowMs, silentMs, graceMs)
  }

  /** A long prompt keeps this thread busy from here on: a client that waits for this processor shall go first. */
  #acknowledge(client: Client, envelope: Envelope, frames: readonly Uint8Array[]): void {
    this.#answer(client, envelope, NONE)
    if (frames.some(({ length }) => length > LONG_BYTES)) giveWay()
  }

  #start(client: Client, envelope: Envelope, request: Request): void {
    if (request.op === 'lookup') {
      void this.#settle(this.#lookups.lookup(client, request as RequestOf<'lookup'>), NONE)
    } else if (!ORDERED.has(request.op)) {
      this.#run(client, envelope, request)
    } else if (client.tail === null) {
      this.#keepOrder(client, this.#run(client, envelope, request))
    } else {
      this.#enqueue(client, envelope, request, client.tail)
    }
  }

  /** Performs an ordered operation after those before it; answers "no" when too many wait. */
  #enqueue(client: Client, envelope: Envelope, request: Request, before: Promise<void>): void {
    const bytes = 'key' in request ? request.key.tokens.byteLength : 0
    if (client.enqueue(bytes)) {
      const done = before.then(() => {
        client.dequeue(bytes)
        return this.#run(client, envelope, request)
      })
      this.#keepOrder(client, done)
    } else {
      this.#parts.counts.failed += 1
      this.#answer(client, envelope, NO[request.op])
    }
  }

  /** Lets later ordered operations of the client wait for this one. */
  #keepOrder(client: Client, done: Promise<void> | undefined): void {
    if (done === undefined) return
    const tail = done.finally(() => {
      if (client.tail === tail) client.tail = null
    })
    client.tail = tail
  }

  /** Handles a request and answers it: at once, or later when it returns a promise. Never throws, never rejects. */
  #run(client: Client, envelope: Envelope, request: Request): Promise<void> | undefined {
    const no = NO[request.op]
    try {
      const reply = this.#handle(client, request)
      if (reply instanceof Promise) {
        return this.#settle(reply, no).then((settled) => this.#answer(client, envelope, settled))
      }
      this.#answer(client, envelope, reply)
    } catch (error) {
      this.#answer(client, envelope, this.#failed(error, no))
    }
    return undefined
  }

  #settle<Value>(reply: Promise<Value>, no: Reply): Promise<Value | Reply> {
    return reply.catch((error: unknown) => this.#failed(error, no))
  }

  #failed(error: unknown, no: Reply): Reply {
    this.#parts.counts.failed += 1
    if (!(error instanceof CacheError)) this.#onError(error)
    return no
  }

  #handle(client: Client, request: Request): Reply | Promise<Reply> {
    switch (request.op) {
      case 'prepare_store':
        return this.#transfers.prepareStore(client, request as RequestOf<'prepare_store'>)
      case 'commit_store':
        return this.#transfers.commitStore(request)
      case 'prepare_retrieve':
        return this.#transfers.prepareRetrieve(request as RequestOf<'prepare_retrieve'>)
      case 'commit_retrieve':
        return this.#transfers.commitRetrieve(request as RequestOf<'commit_retrieve'>)
      case 'query_prefetch_status':
        return this.#lookups.query(client, request.requestId)
      case 'wait_prefetch_status':
        return this.#lookups.wait(client, request)
      case 'free_lookup_locks':
        this.#lookups.freeLocks(request as RequestOf<'free_lookup_locks'>)
        return NONE
      case 'end_session':
        this.#blocks.endRequest(client, request.requestId)
        this.#lookups.endSession(client, request.requestId)
        return NONE
      case 'ping':
        return this.#workers.ping(client, request.instanceId)
      case 'register_kv_cache_engine_driven_context':
        return this.#workers.register(client, request)
      case 'unregister_kv_cache_engine_driven_context':
        return this.#workers.unregister(request.instanceId)
      case 'report_block_allocation':
        this.#blocks.report(client, request)
        return NONE
      case 'clear':
        return this.#clear()
      case 'get_chunk_size':
        return this.#chunkSize
      case 'negotiate_chunk_size':
        return this.#negotiate(request.alignmentTokens)
      case 'get_experimental':
        return EXPERIMENTAL
      default:
        return OK
    }
  }

  #negotiate(alignmentTokens: number): Reply {
    const { engine, counts, log } = this.#parts
    const { chunkTokens } = engine.options
    if (chunkTokens % alignmentTokens === 0) return this.#chunkSize
    counts.refused += 1
    log.warn(
      { alignmentTokens, chunkTokens },
      'a client needs chunks of a multiple of other tokens: set --chunk-tokens',
    )
    return REFUSED
  }

  async #clear(): Promise<Reply> {
    const { engine, counts, log, onCleared } = this.#parts
    if (this.#options.allowsClear) {
      const cleared = await engine.clear({}, { l0: true, l1: true, l2: true })
      onCleared?.(cleared)
    } else {
      counts.refused += 1
      log.warn({}, 'a client asked to clear everything: refused without --mp-allow-clear')
    }
    return NONE
  }

  #refuseForeign(client: Client, { envelope, instanceId }: Extract<Incoming, { kind: 'foreign' }>): void {
    const { counts, log } = this.#parts
    counts.refused += 1
    if (!client.wasWarned) {
      client.wasWarned = true
      const text =
        'a worker wants the lmcache_driven path, which is not served: set lmcache.mp.mp_transfer_mode to engine_driven'
      log.warn({ instance: String(instanceId) }, text)
    }
    this.#refuse(client, envelope, WRONG_PATH)
  }

  #answer(client: Client, { uid, op }: Envelope, reply: Reply): void {
    if (reply === REFUSED) this.#refuse(client, { uid, op }, WRONG_LAYOUT)
    else this.#send(client.peer, reply === null ? [uid, op] : [uid, op, reply])
  }

  #refuse(client: Client, { uid }: Envelope, text: string): void {
    if (client.generation?.reportsOtherOps === true && client.survivesOtherOps) {
      this.#send(client.peer, [uid, textReply(text)!])
    }
  }
}

/**
 * What 0.5.3 and 0.5.4 never send: most workers ask for experiments before they register, under another number than
 * theirs; SGLang's do not, but say more when they register.
 */
function tellsOfNewer(incoming: Incoming): boolean {
  if (incoming.kind === 'malformed') return false
  const wireOp = decodeOp(incoming.envelope.op)
  if (typeof wireOp === 'string') return true
  if (incoming.kind === 'foreign') return incoming.isUnified
  if (incoming.kind !== 'request') return false
  const { request } = incoming
  if (request.op === 'register_kv_cache_engine_driven_context') return request.context.slots !== null
  return request.op === 'get_experimental' && wireOp !== EXPERIMENTAL_BEFORE_0_5_5
}
