import { type MessagePort, workerData } from 'node:worker_threads'
import { SystemClock } from '../core/clock.ts'
import { serveCalls } from '../core/rpc.ts'
import type { TokenizerOptions } from './options.ts'
import { TokenizerHost } from './tokenizer-host.ts'

/** What a thread of the pool is started with. */
export interface TokenizerWorkerData {
  readonly port: MessagePort
  readonly options: TokenizerOptions
}

// Entry of a thread that tokenizes.
const { port, options } = workerData as TokenizerWorkerData
serveCalls(port, new TokenizerHost({ options, clock: new SystemClock() }), (error) => {
  throw error // a bug: ends the thread, which the pool sees
})
