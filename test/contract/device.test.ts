import { describe, it } from 'vitest'
import { ManualClock } from '../../src/core/clock.ts'
import { CudaDevice } from '../../src/l0/cuda-device.ts'
import { FAST, H100_PCIE5 } from '../../src/l0/device-profiles.ts'
import { SimulatedDevice } from '../../src/l0/simulated-device.ts'
import { COPY_METHODS, type CopyMethod, probeCuda } from '../../src/native/cuda.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { openStandIn, type StandIn, standInDriver } from '../support/stand-in-driver.ts'
import { until } from '../support/until.ts'
import { deviceContract } from './device-contract.ts'

const CAPACITY_BYTES = 1024 ** 2

for (const profile of [FAST, H100_PCIE5]) {
  deviceContract(`simulated (${profile.name})`, () => {
    const clock = new ManualClock()
    return {
      device: new SimulatedDevice({ capacityBytes: CAPACITY_BYTES, profile }, { clock }),
      capacityBytes: CAPACITY_BYTES,
      host: (bytes) => new Uint8Array(bytes),
      settle: async () => clock.advance(1000),
    }
  })
}

/** A device of the tests' driver, or of the machine's own. */
function cudaHarness(library: string, methods: readonly CopyMethod[], standIn: StandIn | null) {
  standIn?.control(`memory ${CAPACITY_BYTES}`)
  const driver = probeCuda(library)
  if (!driver.available) throw new Error(driver.reason)
  const device = new CudaDevice({ library, ordinal: 0, methods }, driver)
  return {
    device,
    capacityBytes: driver.devices[0]!.bytes,
    host: (bytes: number) => new Uint8Array(bytes),
    settle: async () => {
      await until('all fences', () => (device.pending === 0 ? true : undefined))
    },
  }
}

const standIn = await standInDriver()
const METHOD_SETS: readonly (readonly CopyMethod[])[] = [['loop'], ['loop', 'batch'], ['loop', 'kernel'], COPY_METHODS]
if (typeof standIn === 'string') {
  describe('the CUDA device on the stand-in driver', skipUnless(false, standIn), () =>
    it('keeps the contract', () => {}),
  )
} else {
  const opened = openStandIn(standIn)
  for (const methods of METHOD_SETS) {
    deviceContract(`cuda (stand-in, ${methods.join(' and ')})`, () => cudaHarness(standIn.library, methods, opened))
  }
}

const real = probeCuda()
if (real.available) deviceContract(`cuda (${real.devices[0]!.name})`, () => cudaHarness('', COPY_METHODS, null))
else describe('a GPU of this machine', skipUnless(false, real.reason), () => it('keeps the contract', () => {}))
