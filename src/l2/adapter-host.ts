import { assert } from '../core/assert.ts'
import { cannotList, type KeyBatch, type L2Adapter, type ObjectPage } from './adapter.ts'
import { type AdapterReply, type AdapterRequest, type ObjectBytes, type Port, toWire } from './adapter-messages.ts'
import type { BackendOptions } from './options.ts'
import { scrubObjects } from './scrub-objects.ts'

/** How this thread makes adapters, by type. A factory may load its client library first. */
export type AdapterFactories = {
  readonly [Type in BackendOptions['type']]: (
    options: Extract<BackendOptions, { readonly type: Type }>,
  ) => L2Adapter | Promise<L2Adapter>
}

/** An adapter of any type, not yet open. */
export function makeAdapter(
  factories: Partial<AdapterFactories>,
  backend: BackendOptions,
): L2Adapter | Promise<L2Adapter> {
  const make = factories[backend.type] as ((options: BackendOptions) => L2Adapter | Promise<L2Adapter>) | undefined
  assert(make !== undefined, 'an adapter of a type that this thread cannot make')
  return make(backend)
}

type Answer = Partial<Pick<AdapterReply, 'amount' | 'perKey' | 'sums' | 'inline' | 'page' | 'tenants'>>
type RequestOf<Kind extends AdapterRequest['kind']> = Extract<AdapterRequest, { readonly kind: Kind }>

/**
 * Runs adapters in this thread for a `RemoteAdapter` in another.
 *
 * @param memory this thread's view of the arena; null when bytes never lie there.
 */
export function hostAdapters(port: Port, memory: Uint8Array | null, factories: Partial<AdapterFactories>): void {
  const host = new AdapterHost(port, memory, factories)
  port.on('message', (request) => void host.take(request as AdapterRequest))
}

class AdapterHost {
  readonly #port: Port
  readonly #memory: Uint8Array | null
  readonly #factories: Partial<AdapterFactories>
  readonly #adapters = new Map<number, L2Adapter>()
  /** Openings under way. */
  readonly #opening = new Map<number, Promise<unknown>>()
  /** By request. */
  readonly #aborts = new Map<number, AbortController>()

  constructor(port: Port, memory: Uint8Array | null, factories: Partial<AdapterFactories>) {
    this.#port = port
    this.#memory = memory
    this.#factories = factories
  }

  /** Answers one request, well or with its error. */
  async take(request: AdapterRequest): Promise<void> {
    const { id } = request
    if (request.kind === 'abort') {
      this.#aborts.get(id)?.abort()
      return
    }
    const abort = new AbortController()
    this.#aborts.set(id, abort)
    try {
      this.#reply(request, await this.#answer(request, abort.signal), null)
    } catch (error) {
      this.#reply(request, {}, error)
    }
    this.#aborts.delete(id)
  }

  #reply({ id, adapter }: AdapterRequest, answer: Answer, error: unknown): void {
    const { amount = 0, perKey = null, sums = null, inline = null, page = null, tenants = null } = answer
    const usage = this.#adapters.get(adapter)?.usage() ?? null
    const reply: AdapterReply = {
      id,
      amount,
      perKey,
      sums,
      inline,
      page,
      tenants,
      usage,
      error: error === null ? null : toWire(error),
    }
    const moved = [perKey, sums, inline].filter((bytes) => bytes !== null)
    this.#port.postMessage(
      reply,
      moved.map(({ buffer }) => buffer),
    )
  }

  async #answer(request: AdapterRequest, signal: AbortSignal): Promise<Answer> {
    switch (request.kind) {
      case 'open': {
        const opening = this.#open(request)
        this.#opening.set(request.adapter, opening)
        return opening.finally(() => this.#opening.delete(request.adapter))
      }
      case 'lookup': {
        const found = new Uint8Array(request.count)
        await this.#adapterOf(request).lookup(request, found, signal)
        return { perKey: found }
      }
      case 'store': {
        const outcomes = new Uint8Array(request.count)
        const sources = this.#views(request, request.inline)
        const amount = await this.#adapterOf(request).store(request, sources, outcomes, signal)
        return { amount, perKey: outcomes, sums: request.sums ?? null }
      }
      case 'load':
        return this.#load(request, signal)
      case 'remove':
        return { amount: await this.#adapterOf(request).remove(request, signal) }
      case 'list':
        return { page: await this.#list(request, signal) }
      case 'scrub': {
        const outcomes = new Uint8Array(request.count)
        const amount = await scrubObjects(this.#adapterOf(request), request, outcomes, signal)
        return { amount, perKey: outcomes }
      }
      case 'quotas':
        return { amount: (await this.#adapterOf(request).setQuotas?.(request.changes, signal)) === true ? 1 : 0 }
      case 'tenants':
        return { tenants: (await this.#adapterOf(request).tenants?.(signal)) ?? [] }
      case 'clear': {
        const { model, salt } = request
        const filter = { ...(model === undefined ? {} : { model }), ...(salt === undefined ? {} : { salt }) }
        return { amount: await this.#adapterOf(request).clear(filter, signal) }
      }
      default:
        await this.#opening.get(request.adapter)?.catch(() => undefined)
        await this.#adapters.get(request.adapter)?.close()
        this.#adapters.delete(request.adapter)
        return {}
    }
  }

  async #open({ adapter: number, backend }: RequestOf<'open'>): Promise<Answer> {
    const adapter = await makeAdapter(this.#factories, backend)
    await adapter.open()
    this.#adapters.set(number, adapter)
    return {}
  }

  async #list(request: RequestOf<'list'>, signal: AbortSignal): Promise<ObjectPage> {
    const adapter = this.#adapterOf(request)
    if (adapter.list === undefined) throw cannotList(adapter)
    return adapter.list(request.cursor, request.countMax, signal)
  }

  async #load(request: RequestOf<'load'>, signal: AbortSignal): Promise<Answer> {
    const outcomes = new Uint8Array(request.count)
    const inline = request.offsets === null ? new Uint8Array(request.count * request.lengthBytes) : null
    const targets = this.#views(request, inline)
    const amount = await this.#adapterOf(request).load(request, targets, outcomes, signal)
    return { amount, perKey: outcomes, inline }
  }

  #adapterOf({ adapter }: AdapterRequest): L2Adapter {
    const hosted = this.#adapters.get(adapter)
    assert(hosted !== undefined, 'a request for an adapter that was not opened')
    return hosted
  }

  #views({ count, offsets, shared, lengthBytes }: KeyBatch & ObjectBytes, inline: Uint8Array | null): Uint8Array[] {
    const memory = shared === null ? this.#memory : new Uint8Array(shared)
    const bytes = offsets === null ? inline : memory
    assert(bytes !== null, 'object bytes that are nowhere')
    return Array.from({ length: count }, (_, key) => {
      const at = offsets === null ? key * lengthBytes : offsets[key]!
      assert(at + lengthBytes <= bytes.length, 'object bytes outside of the memory')
      return bytes.subarray(at, at + lengthBytes)
    })
  }
}
