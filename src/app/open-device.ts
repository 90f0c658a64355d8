import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { CudaDevice } from '../l0/cuda-device.ts'
import type { Device } from '../l0/device.ts'
import { DEVICE_PROFILES } from '../l0/device-profiles.ts'
import type { L0Options } from '../l0/options.ts'
import { SimulatedDevice } from '../l0/simulated-device.ts'
import { type CudaDriver, probeCuda } from '../native/cuda.ts'
import type { SharedSegment } from '../native/shared-memory.ts'

/** Time that the table of copy methods may take at a start. */
const MEASURE_SECONDS = 0.6

/** The L0 of an engine, and what is to be said of it. */
export interface OpenedDevice {
  /** Null = no L0 of our own: L1 and L2 serve, and blocks of inference servers are observed. */
  readonly device: Device | null
  /** What is not real about it, for people; null when it is. */
  readonly simulated: string | null
  /** Why there is none; null when there is one, or none was asked for. */
  readonly missing: string | null
}

export interface OpenDeviceParts {
  readonly segment: SharedSegment
  readonly clock: Clock
  readonly logger: Logger
}

/** The GPU that L0 is to be on: its driver, or why there is none. */
export type FoundGpu = { readonly driver: CudaDriver } | { readonly reason: string }

/**
 * Looks for the GPU that the options name, before the slow part of a start. Takes no memory of it.
 *
 * @throws CacheError DEVICE_UNAVAILABLE when `cuda` is asked for and there is no driver or device
 */
export function findGpu({ device, cudaLibrary, cudaOrdinal }: L0Options): FoundGpu {
  if (device === 'none' || device === 'simulated') return { reason: `--l0-device is ${device}` }
  // Before the driver starts. Streams that share a queue of the hardware wait for each other: with the usual 8 queues a
  // stream that waits for a word of another process would hold up copies, and even the write that ends its wait.
  process.env.CUDA_DEVICE_MAX_CONNECTIONS ??= '32'
  const driver = probeCuda(cudaLibrary)
  if (driver.available && driver.devices.some(({ ordinal }) => ordinal === cudaOrdinal)) return { driver }
  const reason = driver.available ? `the driver has no device ${cudaOrdinal}` : driver.reason
  if (device === 'auto') return { reason }
  const detail = { field: '--l0-device' }
  throw new CacheError('DEVICE_UNAVAILABLE', `--l0-device is cuda, but there is no GPU to use: ${reason}.`, detail)
}

/**
 * Opens the device that the options ask for, on the arena. A GPU that is there but cannot be used (no room for the
 * pool, the arena cannot be registered) is never replaced by a simulation: the engine goes on without L0 and says so.
 *
 * @throws CacheError DEVICE_OUT_OF_MEMORY when the simulation does not fit
 */
export function openDevice(options: L0Options, gpu: FoundGpu, parts: OpenDeviceParts): OpenedDevice {
  if (options.device === 'none') return { device: null, simulated: null, missing: null }
  if ('reason' in gpu) {
    parts.logger.debug({ reason: gpu.reason }, 'no GPU to use: L0 is simulated')
    return simulated(options, parts)
  }
  const { driver } = gpu
  const { cudaLibrary: library, cudaOrdinal: ordinal } = options
  const cuda = new CudaDevice({ library, ordinal, measureSeconds: MEASURE_SECONDS }, driver)
  try {
    cuda.open(options.capacityBytes, parts.segment.memory)
  } catch (error) {
    if (!(error instanceof CacheError)) throw error
    parts.logger.error({ err: error }, 'the GPU cannot be used: this engine runs without L0')
    return { device: null, simulated: null, missing: error.message }
  }
  const isStandIn = driver.isStandIn ? 'L0: a stand-in for the CUDA driver; it copies in host memory' : null
  parts.logger.info({ gpu: cuda.info.name, driver: cuda.info.profile, ...cuda.details() }, 'L0 is on a GPU')
  return { device: cuda, simulated: isStandIn, missing: null }
}

function simulated(options: L0Options, { segment, clock }: OpenDeviceParts): OpenedDevice {
  const { capacityBytes, simulatedProfile } = options
  const device = new SimulatedDevice({ capacityBytes, profile: DEVICE_PROFILES[simulatedProfile]! }, { clock })
  device.open(capacityBytes, segment.memory)
  const says = 'L0: a simulated GPU; transfer times are those of its profile, not of this machine'
  return { device, simulated: says, missing: null }
}
