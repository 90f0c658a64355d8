import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { SystemClock } from '../core/clock.ts'
import { serveCalls } from '../core/rpc.ts'
import { hostAdapters } from '../l2/adapter-host.ts'
import { crc32 } from '../native/checksum.ts'
import { attachSegment, type SegmentHandle } from '../native/shared-memory.ts'
import type { ChecksumPort } from '../transfer/checksums.ts'
import { adapterFactories } from './adapter-factories.ts'
import { takeLongTurns } from './thread-priority.ts'

/** What an io worker is started with. */
export interface IoWorkerData {
  readonly arena: SegmentHandle
  readonly adapters: MessagePort
  readonly sums: MessagePort
}

// Entry of an io worker: L2 adapters with their checksums, and checksums of L1, straight on the arena.
const { arena, adapters, sums } = workerData as IoWorkerData
const memory = attachSegment(arena)
takeLongTurns()
hostAdapters(adapters, memory, adapterFactories(new SystemClock()))
const port: ChecksumPort = {
  sums: async (offsets, lengths) =>
    Uint32Array.from(offsets, (offset, row) => crc32(memory.subarray(offset, offset + lengths[row]!))),
}
serveCalls(sums, port, (error) => {
  throw error // a bug: end the worker, which the data thread sees
})
parentPort!.postMessage('ready')
