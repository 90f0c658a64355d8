/** Direction of a transfer, seen from the host. */
export type Direction = 'store' | 'load' // store = device to host (D2H), load = host to device (H2D)

/** A queue of transfers that complete in order. */
export type StreamId = number

export interface DeviceInfo {
  readonly kind: 'cuda' | 'simulated'
  readonly name: string
  readonly profile: string
  readonly capacityBytes: number
}

/**
 * n copies between device memory and one host buffer. Arrays are parallel, length n.
 * Offsets are bytes from the start of the device pool and of the host memory that the device was opened with.
 * The copies of one batch may run in any order, so their targets must not overlap.
 */
export interface CopyBatch {
  readonly direction: Direction
  readonly count: number
  readonly deviceOffsets: Float64Array
  readonly hostOffsets: Float64Array
  readonly lengths: Float64Array
}

/** Lists of blocks of the device's own pool; all blocks have one length. */
export interface BlockLists {
  /** The block after each one in its list, negative = none. Read at any time until the device is closed. */
  readonly next: Int32Array
  readonly blockBytes: number
}

/**
 * n rows of one length between lists of blocks and the host memory: row i starts `skipBytes[i]` into the list that
 * begins with `firstBlocks[i]`, and its bytes fill the blocks one after another. Arrays are parallel, length n.
 */
export interface RunBatch {
  readonly direction: Direction
  readonly count: number
  readonly lists: BlockLists
  readonly firstBlocks: Int32Array
  readonly skipBytes: Float64Array
  readonly hostOffsets: Float64Array
  readonly rowBytes: number
}

/** A GPU, real or simulated: a pool of memory, streams, and asynchronous copies. */
export interface Device {
  readonly info: DeviceInfo

  /**
   * Reserves the L0 pool. Called once.
   *
   * @param host the memory that copies go to and come from. null = metadata only: transfers take their time and
   * settle, no byte moves and no pool memory is held.
   * @throws CacheError DEVICE_OUT_OF_MEMORY
   */
  open(poolBytes: number, host: Uint8Array | null): void

  createStream(): StreamId

  /**
   * Work submitted to `stream` from now on starts only after all that was submitted to `earlier` so far has
   * settled, well or not.
   */
  wait(stream: StreamId, earlier: StreamId): void

  /**
   * Queues a batch on a stream; the batches of a stream run in order. Its bytes are visible at the far side only
   * once the fence settles; until then the caller leaves both sides untouched. The arrays of `batch` are read
   * before `submit` returns and may be reused at once.
   *
   * @param done the fence, called once and never before `submit` returns: seconds the copy engine was busy with
   * this batch, or the CacheError DEVICE_FAULT, after which the target bytes are garbage.
   */
  submit(stream: StreamId, batch: CopyBatch, done: (busySeconds: number, error: Error | null) => void): void

  /**
   * As `submit`, of rows in lists of blocks. Absent where the caller has to say each piece. The arrays of `batch` are read
   * before the call returns; the lists that it names stay as they are until the fence.
   */
  submitRuns?(stream: StreamId, batch: RunBatch, done: (busySeconds: number, error: Error | null) => void): void

  /** What real hardware tells of itself beside `info`, for `/status`; absent where nothing is to tell. */
  details?(): object | null

  /** `lost` is permanent for the process: every transfer fails, the other tiers live on. */
  readonly state: 'open' | 'lost' | 'closed'

  /** Frees the pool. What is pending fails first, before `close` returns. */
  close(): void
}

/** Blocks of a layout and where their shards lie in the host memory. Arrays are read before the call returns. */
export interface PagedBatch {
  readonly direction: Direction
  /** From `addLayout`. */
  readonly layout: number
  /** Block ids, shard after shard, as many for each. */
  readonly blocks: Int32Array
  readonly blockCount: number
  /** Offsets of the shards, in which planes follow one another. */
  readonly hostOffsets: Float64Array
  readonly shards: number
}

/** Where the blocks of a model lie: the same block ids in each plane. Bytes. */
export interface PagedLayout {
  /** Where block 0 of each plane lies in its pool. */
  readonly planes: readonly number[]
  readonly blockStride: number
  readonly blockBytes: number
}

/** A device that reaches the pools of other processes. */
export interface SharingDevice extends Device {
  readonly sharesPools: true

  /** Number of a layout; `pools[i]` is that of plane i. @throws CacheError BAD_REQUEST when one does not lie within its pool */
  addLayout(pools: readonly number[], layout: PagedLayout): number

  /**
   * Opens a pool of another process: `bytes` from `offset` of the allocation that the 64 bytes of `handle` name. The
   * mapping keeps that memory in place until `closePool`, also when its owner is gone.
   *
   * @returns number of the pool. @throws CacheError DEVICE_UNAVAILABLE when it cannot be opened, DEVICE_FAULT
   */
  importPool(handle: Uint8Array, offset: number, bytes: number): number

  /**
   * Gives a pool back once the transfers under way have ended. Later ones fail. Returns at once.
   *
   * @param done called when the mapping is gone: from then on its owner may free the memory.
   */
  closePool(pool: number, done?: () => void): void

  /** The 64 bytes by which another process opens our pool. @throws CacheError DEVICE_FAULT */
  exportPool(): Uint8Array

  /** Puts `value` into a word of a pool, 8 bytes at `offset`, once all before it on the stream has ended. */
  signal(stream: StreamId, pool: number, offset: number, value: number): void

  /** Lets the stream go on once that word is at least `value`. Nothing ends the wait but that, or another `signal`. */
  waitForValue(stream: StreamId, pool: number, offset: number, value: number): void

  /** As `submit`, of blocks of a layout. */
  submitPaged(stream: StreamId, batch: PagedBatch, done: (busySeconds: number, error: Error | null) => void): void
}

export function isSharing(device: Device): device is SharingDevice {
  return 'sharesPools' in device
}
