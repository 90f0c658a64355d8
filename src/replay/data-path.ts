import type { HashChain } from '../core/hash-chain.ts'
import type { DeviceRequest } from '../engine/device-path.ts'
import type { Lookup } from '../engine/lookup.ts'
import type { SlotList } from '../l1/slot-list.ts'

/** One request on its way through the virtual server. Used again for a later one. */
export interface Flight {
  readonly chain: HashChain
  readonly grants: SlotList
  lookup: Lookup | null
  /** What it has on the device; null while there is no L0. */
  device: DeviceRequest | null
  promptTokens: number
  outputTokens: number
  /** It is the last request of its session. */
  endsSession: boolean
}

/** How chunks get to the virtual server and from it: it copies by itself, or a device does. */
export interface DataPath {
  /** Takes the promised chunks. `done` is told how many leading chunks were served, at once or later. */
  fetch(flight: Flight, done: (chunks: number) => void): void
  /** Stores the chunks that L1 lacks. `done` is told how many became readable in L1. */
  store(flight: Flight, done: (chunks: number) => void): void
  /** Lets go of everything but the lookup. */
  end(flight: Flight): void
}
