export const L0_DEVICES = ['auto', 'cuda', 'simulated', 'none'] as const
export type L0DeviceChoice = (typeof L0_DEVICES)[number]

/** Sizes and limits of the L0 tier. Units in the names; `config/` gives flags and defaults. */
export interface L0Options {
  /** Bytes of the block pool, on the device. */
  readonly capacityBytes: number
  /** Tokens of one block of the model that registers first. */
  readonly blockTokens: number
  /** Bytes of one block. 0 = `blockTokens` tokens of the model that registers first. */
  readonly blockBytes: number
  /** Blocks of the pool at most: a block size that would give more is raised. Bounds the tables of the host. */
  readonly blocksMax: number
  /** Block ids at most that are watched on GPUs of inference servers, of all of them together. 48 bytes each. */
  readonly observedBlocksMax: number
  /** One of this many chunks (by hash) has the lifecycle of its blocks published on the bus. 1 = all. */
  readonly lifecycleSampleEvery: number
  /** Bytes between L0 and L1 in flight at most, in each direction; further batches wait in order. */
  readonly copyInFlightBytes: number
  /** Whose blocks L0 has; `auto` = the GPU where there is one, else a simulated one. */
  readonly device: L0DeviceChoice
  /** Which GPU, as CUDA numbers them. */
  readonly cudaOrdinal: number
  /** Path of the CUDA driver; '' = the usual places. */
  readonly cudaLibrary: string
  /** Speed of the simulated device: a name of `DEVICE_PROFILES`. */
  readonly simulatedProfile: string
}

/** What an embedded engine starts with. */
export const L0_DEFAULTS: L0Options = {
  capacityBytes: 1024 ** 3,
  blockTokens: 16,
  blockBytes: 0,
  blocksMax: 1024 ** 2,
  observedBlocksMax: 4 * 1024 ** 2,
  lifecycleSampleEvery: 1,
  copyInFlightBytes: 256 * 1024 ** 2,
  device: 'auto',
  cudaOrdinal: 0,
  cudaLibrary: '',
  simulatedProfile: 'h100-pcie5',
}
