import { type CallPort, remoteOf } from '../../core/rpc.ts'
import type { EnginePort } from '../http/engine-port.ts'

const METHODS = [
  'registerModel',
  'models',
  'findModel',
  'lookup',
  'prefetch',
  'releaseLease',
  'renewLease',
  'statShard',
  'statShards',
  'leaseShard',
  'served',
  'readExpired',
  'reserveShard',
  'commitShard',
  'abortShard',
  'clear',
  'pin',
  'pins',
  'unpin',
  'quarantine',
  'releaseQuarantine',
  'quotas',
  'quota',
  'setQuota',
  'attachPool',
  'holdPool',
  'copyPool',
  'openBorrower',
  'holdBorrower',
  'takeBlocks',
  'commitBlocks',
  'releaseBlocks',
  'status',
  'readiness',
] as const satisfies readonly (keyof EnginePort)[]

// A method that is missing in the list does not compile.
type Missing = Exclude<keyof EnginePort, (typeof METHODS)[number]>
const isComplete: [Missing] extends [never] ? true : Missing = true

/** The engine as the service thread calls it. */
export function engineClient(port: CallPort): EnginePort {
  if (!isComplete) throw new TypeError('engine port')
  return remoteOf<EnginePort>(port, METHODS)
}
