/** What one copy of a batch costs the copy engine: a fixed part and a part by length. */
export interface CopyCost {
  readonly copySeconds: number
  readonly bytesPerSecond: number
}

/** What a batch costs in one direction. Copies shorter than `cliffBytes` pay `small`, the others `large`. */
export interface DirectionCost {
  readonly submitSeconds: number
  readonly cliffBytes: number
  readonly small: CopyCost
  readonly large: CopyCost
}

/** The speed of a simulated device. */
export interface DeviceProfile {
  readonly name: string
  readonly store: DirectionCost
  readonly load: DirectionCost
  /** Speed of each direction while both are busy, as a share of its speed alone. 0..1 */
  readonly bothWaysRatio: number
}

/**
 * Fitted to the figures published for an H100 on PCIe 5, in GB/s of one direction: batches of 4 to 16 KiB pieces
 * 4 to 7, from 28 KiB on 27 to 44, pieces of 1 MiB and more about 50; both ways at once 83 together.
 * The fit gives 4.0 at 4 KiB, 7.0 at 16 KiB, 27 at 28 KiB, 44 at 160 KiB, 49.8 at 1 MiB.
 * Stores are taken to cost what loads do. The cost of a submit is not published: 4 us is an assumption.
 */
const H100_PCIE5_WAY: DirectionCost = {
  submitSeconds: 4e-6,
  cliffBytes: 28 * 1024,
  small: { copySeconds: 0.585e-6, bytesPerSecond: 9.33e9 },
  large: { copySeconds: 0.5e-6, bytesPerSecond: 51e9 },
}
export const H100_PCIE5: DeviceProfile = {
  name: 'h100-pcie5',
  store: H100_PCIE5_WAY,
  load: H100_PCIE5_WAY,
  bothWaysRatio: 0.83,
}

const FAST_WAY: DirectionCost = {
  submitSeconds: 10e-6,
  cliffBytes: 0,
  small: { copySeconds: 1e-6, bytesPerSecond: 100e9 },
  large: { copySeconds: 1e-6, bytesPerSecond: 100e9 },
}
/** Round figures for tests: 10 us a submit, 1 us a copy, 100 GB/s, no cliff, no contention. */
export const FAST: DeviceProfile = { name: 'fast', store: FAST_WAY, load: FAST_WAY, bothWaysRatio: 1 }

const INSTANT_WAY: DirectionCost = {
  submitSeconds: 0,
  cliffBytes: 0,
  small: { copySeconds: 0, bytesPerSecond: Number.POSITIVE_INFINITY },
  large: { copySeconds: 0, bytesPerSecond: Number.POSITIVE_INFINITY },
}
/** Costs nothing: for runs that move no bytes. Fences still settle on the clock, never inside `submit`. */
export const INSTANT: DeviceProfile = { name: 'instant', store: INSTANT_WAY, load: INSTANT_WAY, bothWaysRatio: 1 }

/** Every profile that configuration can name. */
export const DEVICE_PROFILES: Readonly<Record<string, DeviceProfile>> = {
  [H100_PCIE5.name]: H100_PCIE5,
  [FAST.name]: FAST,
  [INSTANT.name]: INSTANT,
}

/** Seconds that `count` copies of these lengths take in one submit, with the other direction idle. */
export function batchSeconds(cost: DirectionCost, lengths: Float64Array, count: number): number {
  let seconds = cost.submitSeconds
  for (let copy = 0; copy < count; copy += 1) {
    const length = lengths[copy]!
    const { copySeconds, bytesPerSecond } = length < cost.cliffBytes ? cost.small : cost.large
    seconds += copySeconds + length / bytesPerSecond
  }
  return seconds
}
