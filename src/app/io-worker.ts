import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { ChunkHasher } from '../core/chunk-hash.ts'
import { SystemClock } from '../core/clock.ts'
import { serveCalls } from '../core/rpc.ts'
import { HashHost } from '../engine/prompt-hasher.ts'
import { hostAdapters } from '../l2/adapter-host.ts'
import { FilesystemAdapter } from '../l2/adapters/filesystem.ts'
import { MemoryAdapter } from '../l2/adapters/memory.ts'
import { lockFile } from '../native/file-lock.ts'
import { attachSegment, type SegmentHandle } from '../native/shared-memory.ts'

/** What an io worker is started with. */
export interface IoWorkerData {
  readonly arena: SegmentHandle
  readonly adapters: MessagePort
  readonly hashing: MessagePort
}

// Entry of an io worker: L2 adapters with their checksums, straight on the arena, and the hashing of long prompts.
const { arena, adapters, hashing } = workerData as IoWorkerData
const clock = new SystemClock()
hostAdapters(adapters, attachSegment(arena), {
  memory: (options) => new MemoryAdapter(options),
  filesystem: (options) => new FilesystemAdapter(options, { clock, lock: lockFile }),
})
serveCalls(hashing, new HashHost(await ChunkHasher.create()), (error) => {
  throw error // a bug: end the worker, which the data thread sees
})
parentPort!.postMessage('ready')
