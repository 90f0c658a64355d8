import { ManualClock } from '../../src/core/clock.ts'
import { FAST, H100_PCIE5 } from '../../src/l0/device-profiles.ts'
import { SimulatedDevice } from '../../src/l0/simulated-device.ts'
import { deviceContract } from './device-contract.ts'

const CAPACITY_BYTES = 1024 ** 2

// A CUDA device joins by one more call, with registered memory for `host` and a wait on the last fence for `settle`.
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
