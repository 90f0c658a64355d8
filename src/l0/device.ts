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

  /** What real hardware tells of itself beside `info`, for `/status`; absent where nothing is to tell. */
  details?(): object | null

  /** `lost` is permanent for the process: every transfer fails, the other tiers live on. */
  readonly state: 'open' | 'lost' | 'closed'

  /** Frees the pool. What is pending fails first, before `close` returns. */
  close(): void
}
