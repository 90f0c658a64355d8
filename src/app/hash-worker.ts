import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { ChunkHasher } from '../core/chunk-hash.ts'
import { serveSlices } from '../engine/hash-lane.ts'
import { addonOrNull } from '../native/addon.ts'

/** What the hashing thread is started with. */
export interface HashWorkerData {
  readonly port: MessagePort
  /** Of `sliceMemory`. */
  readonly memory: SharedArrayBuffer
}

// Entry of the thread that hashes long prompts, a slice at a time.
const { port, memory } = workerData as HashWorkerData
serveSlices(port, memory, await ChunkHasher.create(addonOrNull()?.hashChunks ?? null))
parentPort!.postMessage('ready')
