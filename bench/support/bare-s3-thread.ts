import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { serveCalls } from '../../src/core/rpc.ts'
import type { S3AdapterOptions } from '../../src/l2/adapters/s3/options.ts'
import { attachSegment, type SegmentHandle } from '../../src/native/shared-memory.ts'
import { BareS3 } from './bare-s3.ts'

/** What the thread is started with. */
export interface BareS3Data {
  readonly arena: SegmentHandle
  readonly port: MessagePort
  readonly options: S3AdapterOptions
  readonly depth: number
}

// Entry of a thread that runs the bare loop, as an io worker runs the adapter.
const { arena, port, options, depth } = workerData as BareS3Data
serveCalls(port, new BareS3(options, attachSegment(arena), depth), (error) => {
  throw error
})
parentPort!.postMessage('ready')
