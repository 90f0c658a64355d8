import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { ChunkHasher } from '../core/chunk-hash.ts'
import { SystemClock } from '../core/clock.ts'
import { serveCalls } from '../core/rpc.ts'
import { HashHost } from '../engine/prompt-hasher.ts'
import { hostAdapters } from '../l2/adapter-host.ts'
import { attachSegment, type SegmentHandle } from '../native/shared-memory.ts'
import { adapterFactories } from './adapter-factories.ts'

/** What an io worker is started with. */
export interface IoWorkerData {
  readonly arena: SegmentHandle
  readonly adapters: MessagePort
  readonly hashing: MessagePort
}

// Entry of an io worker: L2 adapters with their checksums, straight on the arena, and the hashing of long prompts.
const { arena, adapters, hashing } = workerData as IoWorkerData
hostAdapters(adapters, attachSegment(arena), adapterFactories(new SystemClock()))
serveCalls(hashing, new HashHost(await ChunkHasher.create()), (error) => {
  throw error // a bug: end the worker, which the data thread sees
})
parentPort!.postMessage('ready')
