import type { Clock, Timer } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { decodeReply, encodePayload, type StoreSlots } from '../protocol/mp/client-codec.ts'
import { CURRENT_GENERATION, type Generation, idOf, type KnownOp } from '../protocol/mp/generations.ts'
import type { BlockRecord, WireContext, WireKey, WireSlot } from '../protocol/mp/messages.ts'
import { MsgpackReader } from '../protocol/msgpack/reader.ts'
import { Dealer } from './dealer.ts'

export interface MpClientOptions {
  readonly clock: Clock
  /** Which numbering of operations to speak. Default: today's. */
  readonly generation?: Generation
  /** Time for one answer. Default: 5 s. */
  readonly timeoutMs?: number
  /** How tokens travel. Default: as a list. */
  readonly tokenForm?: 'token_ids' | 'token_bytes'
}

const NO_BYTES = new Uint8Array(0)

interface Waiter {
  readonly op: string
  readonly resolve: (payload: Uint8Array | null) => void
  readonly reject: (error: Error) => void
  readonly timer: Timer
}

/**
 * The reference client of the MP wire: what a scheduler and a worker of an inference server say to the engine, one
 * method an operation. It copies nothing: slots are places in the segment that `register` names.
 */
export class MpClient {
  readonly #socket: Dealer
  readonly #address: string
  readonly #clock: Clock
  readonly #generation: Generation
  readonly #timeoutMs: number
  readonly #tokenForm: 'token_ids' | 'token_bytes'
  readonly #waiters = new Map<number, Waiter>()
  #uids = 0

  /** @param address host:port. Nobody has to listen there yet. */
  constructor(address: string, options: MpClientOptions) {
    this.#address = address
    this.#clock = options.clock
    this.#generation = options.generation ?? CURRENT_GENERATION
    this.#timeoutMs = options.timeoutMs ?? 5_000
    this.#tokenForm = options.tokenForm ?? 'token_ids'
    this.#socket = new Dealer(address, (frames) => this.#receive(frames))
  }

  /** Tokens of one chunk. The first request of every client. */
  async chunkTokens(): Promise<number> {
    return this.#value(await this.#ask('get_chunk_size'), decodeReply.int)
  }

  async experimental(): Promise<readonly string[]> {
    return this.#value(await this.#ask('get_experimental'), decodeReply.texts)
  }

  /** @param instanceId null = not a worker. @returns false when the engine does not know the worker. */
  async ping(instanceId: bigint | null = null): Promise<boolean> {
    const payload = instanceId === null ? encodePayload.nil() : encodePayload.int(instanceId)
    return this.#value(await this.#ask('ping', payload), decodeReply.bool)
  }

  /** @returns the segment that slots are places of. */
  async register(context: WireContext): Promise<{ name: string; bytes: number }> {
    const reply = await this.#ask('register_kv_cache_engine_driven_context', encodePayload.context(context))
    return this.#value(reply, decodeReply.segment)
  }

  async unregister(instanceId: bigint): Promise<void> {
    await this.#ask('unregister_kv_cache_engine_driven_context', encodePayload.int(instanceId))
  }

  /** Resolves once the engine has taken the question; `answer` has what it found. */
  async lookup(key: WireKey, tensorParallel = key.worldSize): Promise<void> {
    await this.#ask('lookup', this.#key(key), encodePayload.int(tensorParallel))
  }

  /** Chunks found; null while the engine works on it. Given out once; 0 for what is unknown. */
  async answer(requestId: string): Promise<number | null> {
    const reply = await this.#ask('query_prefetch_status', encodePayload.text(requestId))
    return reply === null ? null : this.#value(reply, decodeReply.int)
  }

  /** As `answer`, once there is one or the time is up. */
  async waitAnswer(requestId: string, timeoutSeconds: number): Promise<number | null> {
    const frames = [encodePayload.text(requestId), encodePayload.float(timeoutSeconds)]
    const reply = await this.#ask('wait_prefetch_status', ...frames)
    return reply === null ? null : this.#value(reply, decodeReply.int)
  }

  async prepareStore(key: WireKey, instanceId: bigint): Promise<StoreSlots> {
    const reply = await this.#ask('prepare_store', this.#key(key), encodePayload.int(instanceId))
    return this.#value(reply, decodeReply.store)
  }

  async commitStore(key: WireKey, instanceId: bigint): Promise<boolean> {
    const data = encodePayload.bytes(new Uint8Array(0))
    return this.#value(
      await this.#ask('commit_store', this.#key(key), encodePayload.int(instanceId), data),
      decodeReply.bool,
    )
  }

  /** One slot a chunk, in order; null when the range may not be retrieved. */
  async prepareRetrieve(key: WireKey, instanceId: bigint): Promise<readonly WireSlot[] | null> {
    const reply = await this.#ask('prepare_retrieve', this.#key(key), encodePayload.int(instanceId))
    return reply === null ? null : decodeReply.retrieve(reply)
  }

  async commitRetrieve(key: WireKey, instanceId: bigint): Promise<boolean> {
    const reply = await this.#ask('commit_retrieve', this.#key(key), encodePayload.int(instanceId))
    return this.#value(reply, decodeReply.bool)
  }

  async freeLookupLocks(key: WireKey, tensorParallel = key.worldSize): Promise<void> {
    await this.#ask('free_lookup_locks', this.#key(key), encodePayload.int(tensorParallel))
  }

  async endSession(requestId: string): Promise<void> {
    await this.#ask('end_session', encodePayload.text(requestId))
  }

  /** What a scheduler gave its requests. @param instanceId of the scheduler. */
  async reportBlocks(instanceId: bigint, model: string, records: readonly BlockRecord[]): Promise<void> {
    const frames = [encodePayload.int(instanceId), encodePayload.text(model), encodePayload.blockRecords(records)]
    await this.#ask('report_block_allocation', ...frames)
  }

  async clear(): Promise<void> {
    await this.#ask('clear')
  }

  /** Any request. @param op a number, or a name. @returns the payload frame, null when there is none. */
  request(op: number | string, ...payload: Uint8Array[]): Promise<Uint8Array | null> {
    this.#uids += 1
    const uid = this.#uids
    const opFrame = typeof op === 'number' ? encodePayload.int(op) : encodePayload.text(op)
    const frames = [encodePayload.int(uid), opFrame, ...payload]
    const reply = new Promise<Uint8Array | null>((resolve, reject) => {
      const timer = this.#clock.schedule(this.#timeoutMs, () => {
        this.#waiters.delete(uid)
        reject(new CacheError('ENGINE_TIMEOUT', `no engine answered at ${this.#address} within ${this.#timeoutMs} ms`))
      })
      this.#waiters.set(uid, { op: String(op), resolve, reject, timer })
    })
    this.send(frames)
    return reply
  }

  /** Sends frames as they are, for tests of what engines make of them. */
  send(frames: Uint8Array[]): void {
    this.#socket.send(frames)
  }

  /** Idempotent. What waits for an answer is told SHUTTING_DOWN. */
  close(): void {
    this.#socket.close()
    for (const { reject, timer } of this.#waiters.values()) {
      timer.cancel()
      reject(new CacheError('SHUTTING_DOWN', 'the client was closed'))
    }
    this.#waiters.clear()
  }

  #ask(op: KnownOp, ...payload: Uint8Array[]): Promise<Uint8Array | null> {
    return this.request(idOf(this.#generation, op) ?? op, ...payload)
  }

  #key(key: WireKey): Uint8Array {
    return encodePayload.key(key, this.#tokenForm)
  }

  #value<Value>(reply: Uint8Array | null, decode: (frame: Uint8Array) => Value | null): Value {
    const value = reply === null ? null : decode(reply)
    if (value === null) throw new CacheError('INTERNAL', 'the engine gave an answer of another kind')
    return value
  }

  #receive([uidFrame = NO_BYTES, opFrame = NO_BYTES, payload]: readonly Uint8Array[]): void {
    const uid = Number(new MsgpackReader(uidFrame).int())
    const waiter = this.#waiters.get(uid)
    if (waiter === undefined) return
    this.#waiters.delete(uid)
    waiter.timer.cancel()
    const op = opOf(opFrame)
    // The frames are the socket's: who waits reads them later.
    if (op === waiter.op) waiter.resolve(payload === undefined ? null : Buffer.from(payload))
    else waiter.reject(new CacheError('FORBIDDEN', `the engine answers ${waiter.op} with: ${op}`))
  }
}

function opOf(frame: Uint8Array): string {
  const reader = new MsgpackReader(frame)
  return reader.next() === 'str' ? reader.string(frame.length) : String(reader.int())
}
