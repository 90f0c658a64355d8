import { CacheError } from '../core/errors.ts'
import { HASH_BYTES } from '../core/hash-chain.ts'
import type { AdapterUsage, KeyBatch, L2Adapter, ObjectPage, QuotaChanges, TenantUsage } from './adapter.ts'
import { type AdapterReply, fromWire, type ObjectBytes, type Port, type RequestBody } from './adapter-messages.ts'
import { type BackendOptions, capacityOf, isPeerBackend } from './options.ts'

interface Waiting {
  readonly adapter: RemoteAdapter
  readonly resolve: (reply: AdapterReply) => void
  readonly reject: (error: CacheError) => void
}

/**
 * The data thread's side of an io worker that hosts adapters (`hostAdapters`). One link a worker; any number of
 * adapters share it.
 */
export class AdapterLink {
  readonly #port: Port
  readonly #memory: Uint8Array | null
  readonly #waiting = new Map<number, Waiting>()
  #nextId = 1
  #nextAdapter = 1
  #lost: CacheError | undefined
  readonly #whenLost = Promise.withResolvers<CacheError>()

  /** @param memory this thread's view of the arena; null when bytes never lie there. */
  constructor(port: Port, memory: Uint8Array | null) {
    this.#port = port
    this.#memory = memory
    port.on('message', (reply) => this.#take(reply as AdapterReply))
  }

  /** An adapter of the worker, not yet open. */
  adapter(backend: BackendOptions): RemoteAdapter {
    this.#nextAdapter += 1
    return new RemoteAdapter(this, this.#nextAdapter - 1, backend)
  }

  /**
   * The worker is gone: everything in flight rejects, and so does everything after. Call it at the worker's `exit`:
   * by then none of its reads touches the arena any more.
   */
  lose(reason: string): void {
    if (this.#lost !== undefined) return
    this.#lost = new CacheError('L2_UNAVAILABLE', `the io worker of this adapter ended: ${reason}`)
    const waiting = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const { reject } of waiting) reject(this.#lost)
    this.#whenLost.resolve(this.#lost)
  }

  /** Resolves when the worker is gone, with the error of everything after. */
  get whenLost(): Promise<CacheError> {
    return this.#whenLost.promise
  }

  get isLost(): boolean {
    return this.#lost !== undefined
  }

  /** Requests without an answer. */
  get inFlight(): number {
    return this.#waiting.size
  }

  /** Sends a request and waits for its answer. An abort is forwarded; the answer still comes. */
  async ask(
    adapter: RemoteAdapter,
    body: RequestBody,
    signal: AbortSignal | undefined,
    moved: ArrayBuffer[],
  ): Promise<AdapterReply> {
    if (this.#lost !== undefined) throw this.#lost
    const id = this.#nextId
    this.#nextId += 1
    const onAbort = () => this.#port.postMessage({ id, adapter: adapter.number, kind: 'abort' })
    this.#port.postMessage({ id, adapter: adapter.number, ...body }, moved)
    const answer = new Promise<AdapterReply>((resolve, reject) => this.#waiting.set(id, { adapter, resolve, reject }))
    signal?.addEventListener('abort', onAbort, { once: true })
    try {
      const reply = await answer
      if (reply.error !== null) throw fromWire(reply.error)
      return reply
    } finally {
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /** Offsets of the views when all lie in the arena; else null. */
  offsetsOf(views: readonly Uint8Array[]): Float64Array<ArrayBuffer> | null {
    return this.#memory === null ? null : offsetsIn(this.#memory, views)
  }

  #take(reply: AdapterReply): void {
    const waiting = this.#waiting.get(reply.id)
    if (waiting === undefined) return // of before the loss
    this.#waiting.delete(reply.id)
    if (reply.usage !== null) waiting.adapter.noteUsage(reply.usage)
    waiting.resolve(reply)
  }
}

/** An adapter that works in an io worker. Usage is that of its last answer. */
export class RemoteAdapter implements L2Adapter {
  readonly type: string
  readonly isPeer: boolean
  /** What the link calls it. */
  readonly number: number
  readonly #link: AdapterLink
  readonly #backend: BackendOptions
  #usage: AdapterUsage
  #isOpen = false
  #isClosed = false

  constructor(link: AdapterLink, number: number, backend: BackendOptions) {
    this.type = backend.type
    this.isPeer = isPeerBackend(backend)
    this.number = number
    this.#link = link
    this.#backend = backend
    const capacityBytes = capacityOf(backend)
    this.#usage = { bytes: 0, objects: 0, capacityBytes, evictedObjects: 0, checksumFailures: 0 }
  }

  /** Resolves when the adapter's worker is gone: nothing it is asked succeeds from then on. */
  get lost(): Promise<CacheError> {
    return this.#link.whenLost
  }

  /** May be called again after it rejected: the worker then makes a new adapter. */
  async open(): Promise<void> {
    await this.#ask({ kind: 'open', backend: this.#backend }, undefined)
    this.#isOpen = true
  }

  async lookup(batch: KeyBatch, found: Uint8Array, signal: AbortSignal): Promise<void> {
    const reply = await this.#ask({ kind: 'lookup', ...keysOf(batch) }, signal)
    found.set(reply.perKey!)
  }

  async store(
    batch: KeyBatch,
    sources: readonly Uint8Array[],
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    const sums = batch.sums === undefined ? undefined : new Uint32Array(batch.sums.subarray(0, batch.count))
    const body = { kind: 'store', ...keysOf(batch), sums, ...this.#bytesOf(sources, true) } as const
    const reply = await this.#ask(body, signal)
    outcomes.set(reply.perKey!)
    if (reply.sums !== null) batch.sums?.set(reply.sums)
    return reply.amount
  }

  async load(
    batch: KeyBatch,
    targets: readonly Uint8Array[],
    outcomes: Uint8Array,
    signal: AbortSignal,
  ): Promise<number> {
    const place = this.#bytesOf(targets, false)
    const reply = await this.#ask({ kind: 'load', ...keysOf(batch), ...place }, signal)
    outcomes.set(reply.perKey!)
    if (reply.inline !== null) {
      for (const [key, target] of targets.entries()) {
        target.set(reply.inline.subarray(key * place.lengthBytes, (key + 1) * place.lengthBytes))
      }
    }
    return reply.amount
  }

  async remove(batch: KeyBatch, signal: AbortSignal): Promise<number> {
    return (await this.#ask({ kind: 'remove', ...keysOf(batch) }, signal)).amount
  }

  async clear(filter: { readonly model?: string; readonly salt?: string }, signal: AbortSignal): Promise<number> {
    return (await this.#ask({ kind: 'clear', model: filter.model, salt: filter.salt }, signal)).amount
  }

  async list(cursor: string, countMax: number, signal: AbortSignal): Promise<ObjectPage> {
    return (await this.#ask({ kind: 'list', cursor, countMax }, signal)).page!
  }

  async scrub(batch: KeyBatch, outcomes: Uint8Array, signal: AbortSignal): Promise<number> {
    const reply = await this.#ask({ kind: 'scrub', ...keysOf(batch) }, signal)
    outcomes.set(reply.perKey!)
    return reply.amount
  }

  async setQuotas(changes: QuotaChanges, signal: AbortSignal): Promise<boolean> {
    return (await this.#ask({ kind: 'quotas', changes }, signal)).amount === 1
  }

  async tenants(signal: AbortSignal): Promise<TenantUsage[]> {
    return [...(await this.#ask({ kind: 'tenants' }, signal)).tenants!]
  }

  usage(): AdapterUsage {
    return this.#usage
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    if (!this.#link.isLost) await this.#ask({ kind: 'close' }, undefined)
    this.#isClosed = true
  }

  /** Called by the link, before the answer that brings it is seen. */
  noteUsage(usage: AdapterUsage): void {
    this.#usage = usage
  }

  async #ask(body: RequestBody, signal: AbortSignal | undefined): Promise<AdapterReply> {
    if (this.#isClosed) throw new CacheError('L2_UNAVAILABLE', 'the adapter is closed')
    if (!this.#isOpen && body.kind !== 'open' && body.kind !== 'close') {
      throw new CacheError('L2_UNAVAILABLE', 'the adapter is not open: its server was not reached yet')
    }
    if (signal?.aborted) throw new CacheError('L2_TIMEOUT', 'the batch was given up before it began')
    const moved: ArrayBuffer[] = []
    if ('hashes' in body) moved.push(body.hashes.buffer, body.parents.buffer)
    if ('offsets' in body && body.offsets !== null) moved.push(body.offsets.buffer)
    if ('inline' in body && body.inline !== null) moved.push(body.inline.buffer)
    return this.#link.ask(this, body, signal, moved)
  }

  #bytesOf(views: readonly Uint8Array[], isSent: boolean): ObjectBytes {
    const lengthBytes = views[0]?.length ?? 0
    const offsets = this.#link.offsetsOf(views)
    if (offsets !== null) return { lengthBytes, offsets, shared: null, inline: null }
    const place = sharedPlace(views)
    if (place !== null) return { lengthBytes, ...place, inline: null }
    if (!isSent) return { lengthBytes, offsets, shared: null, inline: null }
    const inline = new Uint8Array(views.length * lengthBytes)
    for (const [key, view] of views.entries()) inline.set(view, key * lengthBytes)
    return { lengthBytes, offsets: null, shared: null, inline }
  }
}

/** Offsets of the views in `memory` when all lie there; else null. */
function offsetsIn(memory: Uint8Array, views: readonly Uint8Array[]): Float64Array<ArrayBuffer> | null {
  const offsets = new Float64Array(views.length)
  for (const [key, view] of views.entries()) {
    const at = view.byteOffset - memory.byteOffset
    const isInside = view.buffer === memory.buffer && at >= 0 && at + view.length <= memory.length
    if (!isInside) return null
    offsets[key] = at
  }
  return offsets
}

/** The one shared buffer in which all views lie, and where; null when there is none. */
function sharedPlace(views: readonly Uint8Array[]): Pick<ObjectBytes, 'offsets' | 'shared'> | null {
  const shared = views[0]?.buffer
  if (!(shared instanceof SharedArrayBuffer)) return null
  const offsets = offsetsIn(new Uint8Array(shared), views)
  return offsets === null ? null : { offsets, shared }
}

/** The keys of a batch, copied and cut to their length: posting a view would send all the memory behind it. */
function keysOf({ space, count, hashes, parents, traceparent }: KeyBatch) {
  const { model, salt, ranks, rank, shardBytes, layout } = space
  const kept = { model, salt, ranks, rank, shardBytes, layout }
  const bytes = count * HASH_BYTES
  const keys = { space: kept, count, hashes: copy(hashes, bytes), parents: copy(parents, bytes) }
  return traceparent === undefined ? keys : { ...keys, traceparent }
}

/** Not `slice`: that of a Buffer copies nothing. */
function copy(bytes: Uint8Array, length: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array(bytes.subarray(0, length))
}
