import type { Worker } from 'node:worker_threads'
import { CacheError } from '../core/errors.ts'

/**
 * Why a worker thread ended. A thread whose module cannot be loaded says nothing on its ports: they just close, so the
 * reason has to be asked for here.
 */
export class WorkerEnd {
  readonly #worker: Worker
  readonly #ended = Promise.withResolvers<CacheError>()

  /** @param name of the thread, for people. Make it in the turn that makes the worker. */
  constructor(worker: Worker, name: string) {
    this.#worker = worker
    let error: unknown
    worker.on('error', (thrown) => {
      error = thrown
    })
    worker.on('exit', (code) => {
      const reason = error === undefined ? `exit code ${code}` : messageOf(error)
      this.#ended.resolve(new CacheError('THREAD_ENDED', `${name} ended: ${reason}`, {}, error))
    })
  }

  /** Resolves at the end of the thread, however it came, with THREAD_ENDED. Never rejects. */
  get reason(): Promise<CacheError> {
    return this.#ended.promise
  }

  /** The next message of the thread. @throws CacheError THREAD_ENDED when it ends without one */
  async message(): Promise<unknown> {
    const message = Promise.withResolvers<unknown>()
    const take = (value: unknown) => message.resolve({ value })
    this.#worker.once('message', take)
    const first = await Promise.race([message.promise, this.reason])
    this.#worker.off('message', take)
    if (first instanceof CacheError) throw first
    return (first as { value: unknown }).value
  }

  /** Settles as a call of the thread does; one that failed because the thread ended fails with the reason of that. */
  async explain<T>(call: Promise<T>): Promise<T> {
    try {
      return await call
    } catch (error) {
      throw error instanceof CacheError && error.code === 'SHUTTING_DOWN' ? await this.reason : error
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
