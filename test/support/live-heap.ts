import { once } from 'node:events'

interface Message {
  readonly id?: number
  readonly method?: string
  readonly params?: Record<string, unknown>
  readonly result?: Record<string, number>
  readonly error?: { readonly message: string }
}

/** Heap that is alive in each thread of another process, by its inspector. The process was started with --inspect. */
export class LiveHeap {
  readonly #socket: WebSocket
  readonly #waiters = new Map<string, (message: Message) => void>()
  readonly #workers = new Set<string>()
  #ids = 0

  private constructor(socket: WebSocket) {
    this.#socket = socket
    socket.addEventListener('message', ({ data }) => this.#onMessage('', JSON.parse(String(data)) as Message))
  }

  /** @param printed what the process printed: it tells the address. */
  static async connect(printed: string): Promise<LiveHeap> {
    const url = /ws:\/\/\S+/.exec(printed)?.[0]
    if (url === undefined) throw new Error('the process has no inspector')
    const socket = new WebSocket(url)
    const heap = new LiveHeap(socket)
    await once(socket, 'open')
    await heap.#ask('', 'NodeWorker.enable', { waitForDebuggerOnStart: false })
    return heap
  }

  /** Bytes in use after a collection, over all threads. */
  async bytes(): Promise<number> {
    let sum = 0
    for (const thread of ['', ...this.#workers]) {
      await this.#ask(thread, 'HeapProfiler.collectGarbage')
      const { result } = await this.#ask(thread, 'Runtime.getHeapUsage')
      sum += result?.usedSize ?? 0
    }
    return sum
  }

  get threads(): number {
    return 1 + this.#workers.size
  }

  close(): void {
    this.#socket.close()
  }

  /** @param thread '' = the main one. A thread that ends meanwhile answers with nothing. */
  #ask(thread: string, method: string, params: object = {}): Promise<Message> {
    const id = ++this.#ids
    const message = { id, method, params }
    return new Promise((resolve) => {
      this.#waiters.set(`${thread} ${id}`, resolve)
      if (thread === '') this.#socket.send(JSON.stringify(message))
      else {
        const wrapped = { sessionId: thread, message: JSON.stringify(message) }
        this.#socket.send(
          JSON.stringify({ id: ++this.#ids, method: 'NodeWorker.sendMessageToWorker', params: wrapped }),
        )
      }
    })
  }

  #onMessage(thread: string, message: Message): void {
    const { id, method, params } = message
    if (method === 'NodeWorker.attachedToWorker') this.#workers.add(String(params!.sessionId))
    else if (method === 'NodeWorker.detachedFromWorker') this.#onGone(String(params!.sessionId))
    else if (method === 'NodeWorker.receivedMessageFromWorker') {
      this.#onMessage(String(params!.sessionId), JSON.parse(String(params!.message)) as Message)
    } else if (id !== undefined) {
      this.#waiters.get(`${thread} ${id}`)?.(message)
      this.#waiters.delete(`${thread} ${id}`)
    }
  }

  #onGone(thread: string): void {
    this.#workers.delete(thread)
    for (const [key, resolve] of this.#waiters) if (key.startsWith(`${thread} `)) resolve({})
  }
}
