import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import type { CounterTable } from '../core/counters.ts'
import type { TenantId } from '../core/ids.ts'
import type { EventSink } from '../events/bus.ts'
import { L0_L1_LOADED, L0_L1_STORED } from '../events/catalogue.ts'
import type { COPY_TENANT_FIELDS } from '../events/counters.ts'
import type { BlockManager } from '../l0/block-manager.ts'
import type { BlockTable } from '../l0/block-table.ts'
import type { Device, Direction, RunBatch, StreamId } from '../l0/device.ts'
import type { L0Options } from '../l0/options.ts'
import type { SlotList } from '../l1/slot-list.ts'
import { CopyPlan } from './copy-plan.ts'

/**
 * Told once how a batch ended, after its blocks were let go of and never before `store` or `load` returns.
 *
 * @param error null, or the device's CacheError: then the target bytes are garbage.
 * @param busySeconds what the copy engine spent on it.
 */
export type CopyDone = (error: Error | null, bytes: number, busySeconds: number) => void

export interface L0L1CopierParts {
  readonly device: Device
  readonly blocks: BlockManager
  readonly clock: Clock
  readonly events: EventSink
  readonly tenants: CounterTable<(typeof COPY_TENANT_FIELDS)[number]>
}

/** A batch from its queueing to its fence. Rows are those of its slot list. */
interface Job {
  readonly tenant: TenantId
  readonly runs: Int32Array
  readonly firstBlocks: Int32Array
  /** Bytes into the run at which the row's shard starts. */
  readonly skips: Float64Array
  readonly hostOffsets: Float64Array
  readonly shardBytes: number
  readonly bytes: number
  readonly done: CopyDone
}

/** One direction: its stream, what is in flight on it, and what waits for room. */
interface Lane {
  readonly direction: Direction
  readonly stream: StreamId
  readonly waiting: Job[]
  inFlightBytes: number
  inFlightJobs: number
}

/**
 * Moves whole shards between device blocks and arena slots: one device batch a call. In the arena a shard lies in one
 * piece, on the device in blocks; copies that go on from one another on both sides are merged. A device that follows
 * lists of blocks itself is told of rows alone, so that this thread's share does not grow with the blocks.
 *
 * Each direction has a stream and a bound on bytes in flight; batches over it wait in order, and a batch larger than
 * the bound goes alone. From the call to the fence the blocks are held at the block manager, so that the caller may
 * release its table meanwhile; the slots are the caller's to keep leased. A device fault fails its batch and nothing
 * else; on a lost device every batch fails, waiting ones included.
 */
export class L0L1Copier {
  readonly #inFlightMaxBytes: number
  readonly #parts: L0L1CopierParts
  readonly #plan = new CopyPlan()
  readonly #lanes: Record<Direction, Lane>

  /** @param parts.device open, on the arena as its host memory. */
  constructor(options: Pick<L0Options, 'copyInFlightBytes'>, parts: L0L1CopierParts) {
    this.#inFlightMaxBytes = options.copyInFlightBytes
    this.#parts = parts
    this.#lanes = { store: laneOf('store', parts.device), load: laneOf('load', parts.device) }
  }

  /** Bytes of a direction submitted to the device and not settled. */
  inFlightBytes(direction: Direction): number {
    return this.#lanes[direction].inFlightBytes
  }

  /** Batches of a direction not ended: in flight and waiting. */
  pending(direction: Direction): number {
    const lane = this.#lanes[direction]
    return lane.inFlightJobs + lane.waiting.length
  }

  /**
   * Copies readable chunks of a block table down into slots. Row i: the shard of rank `slots.rank[i]` of chunk
   * `slots.chainIndex[i]` of the table's chain goes to `slots.offset[i]`. At least one row; the list is read before
   * the call returns.
   */
  store(table: BlockTable, slots: SlotList, done: CopyDone): void {
    this.#start(this.#lanes.store, table, slots, done)
  }

  /** Copies slots up into chunks of a block table that are being filled; the caller publishes them when it is done. */
  load(table: BlockTable, slots: SlotList, done: CopyDone): void {
    this.#start(this.#lanes.load, table, slots, done)
  }

  #start(lane: Lane, table: BlockTable, slots: SlotList, done: CopyDone): void {
    const { blocks } = this.#parts
    const { count } = slots
    assert(count > 0, 'empty copy')
    const { tenant, ranks } = blocks.spaces.of(table.space)
    const shardBytes = blocks.spaces.shardBytes(table.space)
    const runs = new Int32Array(count)
    const firstBlocks = new Int32Array(count)
    const skips = new Float64Array(count)
    for (let row = 0; row < count; row += 1) {
      assert(slots.length[row] === shardBytes, 'slot of another length than the shard')
      const run = table.runOf(slots.chainIndex[row]!)
      runs[row] = run
      firstBlocks[row] = blocks.firstBlock(run)
      // A device that holds one rank of many has that rank's shard alone, whatever its number.
      skips[row] = (slots.rank[row]! % ranks) * shardBytes
    }
    for (let row = 0; row < count; row += 1) blocks.holdForTransfer(runs[row]!, lane.direction)
    const hostOffsets = slots.offset.slice(0, count)
    lane.waiting.push({ tenant, runs, firstBlocks, skips, hostOffsets, shardBytes, bytes: shardBytes * count, done })
    this.#submitWaiting(lane)
  }

  #submitWaiting(lane: Lane): void {
    for (let job = lane.waiting[0]; job !== undefined; job = lane.waiting[0]) {
      if (lane.inFlightBytes > 0 && lane.inFlightBytes + job.bytes > this.#inFlightMaxBytes) return
      lane.waiting.shift()
      this.#submit(lane, job)
    }
  }

  #submit(lane: Lane, job: Job): void {
    const { device } = this.#parts
    const done = (busySeconds: number, error: Error | null) => this.#settle(lane, job, busySeconds, error)
    lane.inFlightBytes += job.bytes
    lane.inFlightJobs += 1
    if (device.submitRuns !== undefined) device.submitRuns(lane.stream, this.#rowsOf(lane, job), done)
    else device.submit(lane.stream, this.#planOf(lane, job), done)
  }

  #planOf(lane: Lane, job: Job): CopyPlan {
    const { blocks } = this.#parts
    const plan = this.#plan
    plan.clear(lane.direction)
    for (let row = 0; row < job.runs.length; row += 1) {
      plan.addRun(blocks, job.runs[row]!, job.skips[row]!, job.hostOffsets[row]!, job.shardBytes)
    }
    return plan
  }

  #rowsOf({ direction }: Lane, { firstBlocks, skips, hostOffsets, shardBytes }: Job): RunBatch {
    const { lists } = this.#parts.blocks
    const count = firstBlocks.length
    return { direction, count, lists, firstBlocks, skipBytes: skips, hostOffsets, rowBytes: shardBytes }
  }

  #settle(lane: Lane, job: Job, busySeconds: number, error: Error | null): void {
    lane.inFlightBytes -= job.bytes
    lane.inFlightJobs -= 1
    // Last row first: blocks that nobody else holds become evictable from the end of the prompt.
    for (let row = job.runs.length - 1; row >= 0; row -= 1) {
      this.#parts.blocks.settleTransfer(job.runs[row]!, lane.direction)
    }
    if (error === null) this.#record(lane.direction, job, busySeconds)
    try {
      job.done(error, job.bytes, busySeconds)
    } finally {
      this.#submitWaiting(lane)
    }
  }

  #record(direction: Direction, job: Job, busySeconds: number): void {
    const { tenants, events, clock } = this.#parts
    const isStore = direction === 'store'
    tenants.add(job.tenant, isStore ? 'storeBytes' : 'loadBytes', job.bytes)
    tenants.add(job.tenant, isStore ? 'storeBusySeconds' : 'loadBusySeconds', busySeconds)
    // A device profile without cost has no throughput to sample.
    if (busySeconds === 0) return
    events.publish(isStore ? L0_L1_STORED : L0_L1_LOADED, job.tenant, clock.nowMs(), job.bytes, busySeconds)
  }
}

function laneOf(direction: Direction, device: Device): Lane {
  return { direction, stream: device.createStream(), waiting: [], inFlightBytes: 0, inFlightJobs: 0 }
}
