import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { SystemClock } from '../core/clock.ts'
import { hostAdapters } from '../l2/adapter-host.ts'
import { attachSegment, type SegmentHandle } from '../native/shared-memory.ts'
import { adapterFactories } from './adapter-factories.ts'

/** What an io worker is started with. */
export interface IoWorkerData {
  readonly arena: SegmentHandle
  readonly adapters: MessagePort
}

// Entry of an io worker: L2 adapters with their checksums, straight on the arena.
const { arena, adapters } = workerData as IoWorkerData
hostAdapters(adapters, attachSegment(arena), adapterFactories(new SystemClock()))
parentPort!.postMessage('ready')
