import type { Clock } from '../../core/clock.ts'
import { AttachedPools } from '../../engine/attached-pools.ts'
import { BorrowedBlocks } from '../../engine/borrowed-blocks.ts'
import { DeviceTimelines } from '../../engine/device-timelines.ts'
import type { Engine } from '../../engine/engine.ts'
import type { ModelRegistry } from '../../engine/model-registry.ts'
import type { PromptHasher } from '../../engine/prompt-hasher.ts'
import { isRunning } from '../../native/process-identity.ts'
import type {
  BlocksToTake,
  BorrowerToOpen,
  EnginePort,
  PoolCopy,
  PoolToAttach,
  TimelinePoint,
} from '../http/engine-port.ts'

export interface DeviceSharingParts {
  readonly engine: Engine
  readonly models: ModelRegistry
  readonly hasher: PromptHasher
  readonly clock: Clock
}

type SharingPort = Pick<
  EnginePort,
  | 'attachPool'
  | 'holdPool'
  | 'copyPool'
  | 'openBorrower'
  | 'holdBorrower'
  | 'takeBlocks'
  | 'commitBlocks'
  | 'releaseBlocks'
>

/** The part of `EnginePort` that is about GPU memory shared with inference processes: theirs, and the engine's. */
export class DeviceSharing implements SharingPort {
  readonly #timelines: DeviceTimelines
  readonly #pools: AttachedPools
  readonly #borrowed: BorrowedBlocks

  constructor(parts: DeviceSharingParts) {
    this.#timelines = new DeviceTimelines(parts.clock)
    const shared = { ...parts, timelines: this.#timelines }
    this.#pools = new AttachedPools(shared)
    this.#borrowed = new BorrowedBlocks({ ...shared, isRunning })
  }

  /** Ends what waits for inference processes: the engine stops. */
  endWaits(): void {
    this.#timelines.endWaits()
  }

  /** Forgets processes that are gone. Run by the lease loop. */
  protected sweepSharing(): void {
    this.#pools.sweep()
    this.#borrowed.sweep()
  }

  protected sharingStatus() {
    return { attachedPools: this.#pools.status(), borrowers: this.#borrowed.status() }
  }

  async attachPool(pool: PoolToAttach) {
    return this.#pools.attach(pool)
  }

  async holdPool(poolId: string, act: 'renew' | 'detach'): Promise<boolean> {
    return act === 'renew' ? this.#pools.renew(poolId) : this.#pools.detach(poolId)
  }

  async copyPool(poolId: string, copy: PoolCopy) {
    return this.#pools.copy(poolId, copy)
  }

  async openBorrower(borrower: BorrowerToOpen) {
    return this.#borrowed.open(borrower)
  }

  async holdBorrower(borrowerId: string, act: 'renew' | 'close'): Promise<boolean> {
    return act === 'renew' ? this.#borrowed.renew(borrowerId) : this.#borrowed.close(borrowerId)
  }

  async takeBlocks(borrowerId: string, wanted: BlocksToTake) {
    return this.#borrowed.take(borrowerId, wanted)
  }

  async commitBlocks(borrowerId: string, holdId: string, wait?: TimelinePoint): Promise<number> {
    return this.#borrowed.commit(borrowerId, holdId, wait)
  }

  async releaseBlocks(borrowerId: string, holdId: string): Promise<boolean> {
    return this.#borrowed.release(borrowerId, holdId)
  }
}
