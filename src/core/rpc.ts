import { CacheError, type ErrorCode } from './errors.ts'

/** Where calls and answers pass: a MessagePort, or the channel of a process. */
export interface RpcPort {
  // biome-ignore lint/suspicious/noExplicitAny: what passes is typed where the port is
  on(event: 'message' | 'close', listener: (message: any) => void): unknown
  postMessage(message: unknown, transfer?: ArrayBuffer[]): void
  close(): void
}

/** Methods by name; everything that passes can be structured-cloned. */
// biome-ignore lint/suspicious/noExplicitAny: each method has its own arguments, checked where the port is typed
type Methods = Record<string, (...args: any[]) => any>

interface Call {
  readonly id: number
  readonly method: string
  readonly args: unknown[]
}

type Reply =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly error: { code: ErrorCode; message: string; detail: CacheError['detail'] } }

/**
 * Answers calls that come in on a port with the methods of `target`. An operating error crosses as what it is;
 * any other is reported here and crosses as INTERNAL, without its text.
 */
export function serveCalls(port: RpcPort, target: object, onBug: (error: unknown) => void): void {
  const methods = target as Methods
  port.on('message', async ({ id, method, args }: Call) => {
    try {
      const value = await methods[method]!(...args)
      port.postMessage({ id, value } satisfies Reply)
    } catch (error) {
      const isOperating = error instanceof CacheError
      if (!isOperating) onBug(error)
      const { code, message, detail } = isOperating
        ? error
        : new CacheError('INTERNAL', 'a bug in kvtier; the log has the details')
      port.postMessage({ id, error: { code, message, detail } } satisfies Reply)
    }
  })
}

/** The calling side of a port: one promise a call, all rejected with SHUTTING_DOWN when the port closes. */
export class CallPort {
  readonly #port: RpcPort
  readonly #waiting = new Map<number, { resolve: (value: unknown) => void; reject: (error: Error) => void }>()
  #ids = 0
  #isClosed = false

  constructor(port: RpcPort) {
    this.#port = port
    port.on('message', (reply: Reply) => this.#settle(reply))
    port.on('close', () => this.close())
  }

  /** Calls in flight. */
  get waiting(): number {
    return this.#waiting.size
  }

  /** @param transfer buffers among the arguments that change owner instead of being copied. */
  call(method: string, args: unknown[], transfer: ArrayBuffer[] = []): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(new CacheError('SHUTTING_DOWN', 'the other thread has ended'))
    this.#ids += 1
    const id = this.#ids
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#port.postMessage({ id, method, args } satisfies Call, transfer)
    })
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    for (const { reject } of this.#waiting.values()) {
      reject(new CacheError('SHUTTING_DOWN', 'the other thread has ended'))
    }
    this.#waiting.clear()
    this.#port.close()
  }

  #settle(reply: Reply): void {
    const waiter = this.#waiting.get(reply.id)
    if (waiter === undefined) return
    this.#waiting.delete(reply.id)
    if ('error' in reply) waiter.reject(new CacheError(reply.error.code, reply.error.message, reply.error.detail))
    else waiter.resolve(reply.value)
  }
}

/**
 * A port seen as the interface behind it: every method becomes a call.
 * @param methods every method of `Interface` that may be called.
 */
export function remoteOf<Interface extends object>(port: CallPort, methods: readonly (keyof Interface & string)[]) {
  const remote: Record<string, unknown> = {}
  for (const method of methods) remote[method] = (...args: unknown[]) => port.call(method, args)
  return remote as Interface
}
