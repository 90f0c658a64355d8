import { L0_DEFAULTS, L0_DEVICES, type L0Options } from '../l0/options.ts'
import { bytes, type FieldTable, file, integer, oneOf } from './fields.ts'
import { formatBytes } from './units.ts'

const MIB = 1024 ** 2
const BIG = 1_000_000_000

export const l0Fields = {
  capacityBytes: bytes(
    '--l0-size',
    formatBytes(L0_DEFAULTS.capacityBytes),
    'Memory of the L0 block pool, on the device.',
    MIB,
  ),
  blockTokens: integer(
    '--l0-block-tokens',
    L0_DEFAULTS.blockTokens,
    { minimum: 1, maximum: 65_536 },
    'Tokens of one L0 block.',
  ),
  blockBytes: bytes(
    '--l0-block-size',
    formatBytes(L0_DEFAULTS.blockBytes),
    'Bytes of one L0 block; 0 = as --l0-block-tokens of the first model need.',
  ),
  blocksMax: integer(
    '--l0-blocks',
    L0_DEFAULTS.blocksMax,
    { minimum: 1, maximum: 100_000_000 },
    'L0 blocks at most; a block size that gives more is raised.',
  ),
  observedBlocksMax: integer(
    '--l0-observed-blocks',
    L0_DEFAULTS.observedBlocksMax,
    { minimum: 1, maximum: 100_000_000 },
    'Block ids at most that are watched on the GPUs of inference servers.',
  ),
  lifecycleSampleEvery: integer(
    '--l0-lifecycle-sample',
    L0_DEFAULTS.lifecycleSampleEvery,
    { minimum: 1, maximum: BIG },
    'The blocks of one of this many chunks have their lifetime measured; 1 = all.',
  ),
  copyInFlightBytes: bytes(
    '--l0-copy-budget',
    formatBytes(L0_DEFAULTS.copyInFlightBytes),
    'Bytes between L0 and L1 in flight at most, in each direction.',
    MIB,
  ),
  device: oneOf(
    '--l0-device',
    L0_DEVICES,
    L0_DEFAULTS.device,
    'Whose memory L0 is: auto = a GPU where there is one, else a simulated one; cuda = a GPU or no start.',
  ) as FieldTable<L0Options>['device'],
  cudaOrdinal: integer(
    '--cuda-device',
    L0_DEFAULTS.cudaOrdinal,
    { minimum: 0, maximum: 1024 },
    'Number of the GPU, as CUDA counts them.',
  ),
  cudaLibrary: file('--cuda-library', 'The CUDA driver; empty = libcuda.so.1, where systems and containers have it.'),
  simulatedProfile: oneOf(
    '--simulated-device-profile',
    ['h100-pcie5', 'fast', 'instant'],
    'h100-pcie5',
    'Speed of the simulated GPU that stands in for a real one.',
  ) as FieldTable<L0Options>['simulatedProfile'],
} satisfies FieldTable<L0Options>
