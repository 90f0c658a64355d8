import { CounterTable } from '../../src/core/counters.ts'
import { COPY_TENANT_FIELDS } from '../../src/events/counters.ts'
import { BlockTable } from '../../src/l0/block-table.ts'
import type { DeviceProfile } from '../../src/l0/device-profiles.ts'
import { SimulatedDevice } from '../../src/l0/simulated-device.ts'
import { SlotList } from '../../src/l1/slot-list.ts'
import { type CopyDone, L0L1Copier } from '../../src/transfer/l0-l1-copier.ts'
import { byteSpace, chainOf, makeBlocks } from './l0.ts'

export interface CopySetup {
  readonly profile: DeviceProfile
  readonly capacityBytes: number
  readonly chunkTokens: number
  readonly ranks?: number
  readonly inFlightBytes?: number
  /** 0 = metadata only. */
  readonly hostBytes: number
}

/** A copier between a simulated device with blocks of 16 bytes and a plain byte array as the arena. One space, 0. */
export function makeCopier(setup: CopySetup) {
  const { capacityBytes, hostBytes, chunkTokens, ranks = 1 } = setup
  const made = makeBlocks({ capacityBytes })
  const device = new SimulatedDevice({ capacityBytes, profile: setup.profile }, made)
  const host = new Uint8Array(hostBytes)
  device.open(capacityBytes, hostBytes === 0 ? null : host)
  made.blocks.registerSpace(0, byteSpace(chunkTokens, 1, ranks))
  const copies = new CounterTable(COPY_TENANT_FIELDS, 4)
  const options = { copyInFlightBytes: setup.inFlightBytes ?? 1024 ** 2 }
  const copier = new L0L1Copier(options, { ...made, device, tenants: copies })

  /** Writes `bytes` into a chunk's blocks, as a model that computes it would. */
  const compute = (table: BlockTable, index: number, bytes: Uint8Array) => {
    let done = 0
    for (let block = made.blocks.firstBlock(table.runOf(index)); done < bytes.length; done += 16) {
      device.memory!.set(bytes.subarray(done, done + 16), block * 16)
      block = made.blocks.nextBlock(block)
    }
  }
  /** What a chunk's blocks hold. */
  const read = (table: BlockTable, index: number): Uint8Array => {
    const bytes = new Uint8Array(chunkTokens)
    let block = made.blocks.firstBlock(table.runOf(index))
    for (let done = 0; done < bytes.length; done += 16) {
      const length = Math.min(16, bytes.length - done)
      bytes.set(device.memory!.subarray(block * 16, block * 16 + length), done)
      block = made.blocks.nextBlock(block)
    }
    return bytes
  }
  /** A table of these chunks, filling or resident; throws when there is no room. */
  const allocate = (...names: number[]): BlockTable => {
    const table = new BlockTable(0)
    if (!made.blocks.allocate(table, chainOf(...names), 0, names.length)) throw new Error('no room in the test pool')
    return table
  }
  return { ...made, device, host, copies, copier, compute, read, allocate }
}

/** Slots of whole chunks, one rank: [chain index, offset] each. */
export function slotsOf(
  length: number,
  rows: readonly (readonly [index: number, offset: number])[],
  rank = 0,
): SlotList {
  const slots = new SlotList(1)
  for (const [index, offset] of rows) slots.push(index, rank, offset, length)
  return slots
}

export interface CopyOutcome {
  ended: number
  error: Error | null
  bytes: number
}

/** Follows one batch. */
export function outcomeOf(onEnd: () => void = () => {}): { readonly outcome: CopyOutcome; readonly done: CopyDone } {
  const outcome: CopyOutcome = { ended: 0, error: null, bytes: 0 }
  const done: CopyDone = (error, bytes) => {
    outcome.ended += 1
    outcome.error = error
    outcome.bytes = bytes
    onEnd()
  }
  return { outcome, done }
}
