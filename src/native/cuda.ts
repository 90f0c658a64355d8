import { type Addon, loadAddon } from './addon.ts'

/** One GPU of this machine. */
export interface CudaDeviceFacts {
  readonly ordinal: number
  readonly name: string
  readonly uuid: string
  readonly bytes: number
  readonly computeCapability: string
  readonly multiprocessors: number
  readonly copyEngines: number
}

/** The CUDA driver and its devices. */
export interface CudaDriver {
  readonly available: true
  /** What was loaded, as it was named to the loader. */
  readonly library: string
  /** 1000 * major + 10 * minor of the newest CUDA it serves. */
  readonly driverVersion: number
  /** The tests' driver, which moves bytes in host memory. */
  readonly isStandIn: boolean
  readonly devices: readonly CudaDeviceFacts[]
}

/** A driver with a device at least, or why there is none: one line for people. */
export type CudaProbe = CudaDriver | { readonly available: false; readonly reason: string }

/** Ways to move the pieces of a transfer, in the order of their bits in `methods`. */
export const COPY_METHODS = ['loop', 'batch', 'kernel'] as const
export type CopyMethod = (typeof COPY_METHODS)[number]

/** Seconds that `count` pieces of `pieceBytes` took by each method; 0 = not measured. */
export interface MeasuredRow {
  readonly direction: 'store' | 'load'
  readonly pieceBytes: number
  readonly count: number
  readonly loopSeconds: number
  readonly batchSeconds: number
  readonly kernelSeconds: number
}

/** What an open device tells of itself. */
export interface CudaFigures {
  readonly methods: readonly { name: CopyMethod; available: boolean; reason: string; transfers: number }[]
  /** Empty until measured. */
  readonly table: readonly MeasuredRow[]
  readonly poolBytes: number
  /** Host memory that the device has locked in place. */
  readonly pinnedBytes: number
  readonly importedPools: number
  readonly failures: number
  /** Times that this thread was woken for fences. */
  readonly wakes: number
  /** The CUDA result that ended the device, 0 while it lives. */
  readonly lostWith: number
}

/**
 * Numbers that one fence has in the mail: id, seconds, CUDA result, copies after merging, method, and the piece, block
 * or row that lies outside of its memory (-1 = none).
 */
export const FENCE_WORDS = 6

/**
 * An open device, as the addon gives it. A wrong argument throws; so does every function but `close` once it is closed.
 * Arrays are read before a call returns.
 */
export interface CudaFunctions {
  /** Number of the stream, -1 when there is none. */
  createStream(): number
  wait(stream: number, earlier: number): void
  /** Offsets and lengths of `count` copies; `isStore` is 0 or 1. */
  submit(
    id: number,
    stream: number,
    isStore: number,
    pool: number,
    count: number,
    deviceOffsets: Float64Array,
    hostOffsets: Float64Array,
    lengths: Float64Array,
  ): void
  /** Blocks of a layout, the same number for each of `shards` places of the host memory. */
  submitPaged(
    id: number,
    stream: number,
    isStore: number,
    layout: number,
    blocks: Int32Array,
    blockCount: number,
    hostOffsets: Float64Array,
    shards: number,
  ): void
  /**
   * Lists of blocks of the device's own pool: row i starts `skipBytes[i]` into the list that begins with
   * `firstBlocks[i]`, and fills its blocks one after another with `rowBytes` of the host memory.
   */
  submitRuns(
    id: number,
    stream: number,
    isStore: number,
    count: number,
    firstBlocks: Int32Array,
    skipBytes: Float64Array,
    hostOffsets: Float64Array,
    rowBytes: number,
  ): void
  /**
   * The lists for `submitRuns` from now on: the block after each one, negative = none. Read by the device's thread: what a
   * transfer follows stays as it is until its fence. Kept until the device is closed.
   */
  useBlocks(next: Int32Array, blockBytes: number): void
  /** Number of the layout, or why it cannot be. `pools`: of each plane; `planes`: byte offsets of block 0 there. */
  addLayout(pools: Int32Array, planes: Float64Array, blockStride: number, blockBytes: number): number | string
  /** The 64 bytes by which another process opens the pool, or why there are none. */
  exportPool(): Uint8Array | string
  /** Number of the pool, or why it cannot be opened. Pool 0 is the device's own. */
  importPool(handle: Uint8Array, offset: number, bytes: number): number | string
  /** After the transfers under way, with a fence of its own. Those that come later fail. */
  closePool(id: number, pool: number): void
  /** isSignal 1: the word becomes `value` after all before it; 0: the stream goes on once it is at least that. */
  semaphore(isSignal: number, stream: number, pool: number, offset: number, value: number): void
  measure(budgetSeconds: number): void
  /** `CudaFigures` as JSON. */
  figures(): string
  /** Name and number of a CUDA result. */
  nameOf(result: number): string
  lostWith(): number
  /** False when the device did not come to rest in time: its memory is then left as it is, for good. Idempotent. */
  close(limitMs: number): boolean
}

/** Why a device was not opened: which step failed, and one line for people. */
export interface CudaFailure {
  readonly step: 'driver' | 'device' | 'pool' | 'host' | 'streams'
  readonly result: number
  readonly reason: string
}

/**
 * The CUDA driver of this machine. Loads and initialises it, which can take a second; never throws.
 *
 * @param library path of libcuda; '' = the usual places, where a stand-in is refused.
 */
export function probeCuda(library = '', addon: Addon | string = loadAddon()): CudaProbe {
  if (typeof addon === 'string') return { available: false, reason: addon }
  return JSON.parse(addon.cudaProbe(library)) as CudaProbe
}
