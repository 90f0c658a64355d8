import { type CallPort, remoteOf } from '../../core/rpc.ts'
import type { StoragePort } from '../http/storage-port.ts'

const METHODS = [
  'adapters',
  'adapter',
  'addAdapter',
  'drainAdapter',
  'undrainAdapter',
  'removeAdapter',
  'objects',
  'startJob',
  'jobs',
  'job',
  'cancelJob',
  'health',
] as const satisfies readonly (keyof StoragePort)[]

// A method that is missing in the list does not compile.
type Missing = Exclude<keyof StoragePort, (typeof METHODS)[number]>
const isComplete: [Missing] extends [never] ? true : Missing = true

/** External storage as the service thread operates it. */
export function storageClient(port: CallPort): StoragePort {
  if (!isComplete) throw new TypeError('storage port')
  return remoteOf<StoragePort>(port, METHODS)
}
