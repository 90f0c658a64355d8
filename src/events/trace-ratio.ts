import { assert } from '../core/assert.ts'

/** Bits of a trace id that are random and decide: its last 56. */
const RANDOM_BITS = 56
const DIGITS = RANDOM_BITS / 4
const LOW = 0x1_0000_0000n

/**
 * Which share of the traces that begin here is recorded. The decision comes of the trace id alone, so that services
 * with the same ratio choose the same traces, and those with a greater one a superset.
 *
 * Rule: OpenTelemetry, "TraceState: Probability Sampling": recorded when R >= T, where R is the last 56 bits of the
 * trace id, and T = (1 - ratio) x 2^56, the rejection threshold.
 */
export class TraceRatio {
  /** T as the `th` of a tracestate has it: hexadecimal, zeros at the end left out. */
  readonly threshold: string
  /** The first 24 bits of T (2^24 = nothing passes), and its last 32. */
  readonly #high: number
  readonly #low: number

  /** @param ratio 0..1 */
  constructor(ratio: number) {
    assert(ratio >= 0 && ratio <= 1, 'a ratio outside 0..1')
    const threshold = (1n << BigInt(RANDOM_BITS)) - BigInt(Math.round(ratio * 2 ** RANDOM_BITS))
    this.threshold = threshold.toString(16).padStart(DIGITS, '0').replace(/0+$/, '') || '0'
    this.#high = Number(threshold / LOW)
    this.#low = Number(threshold % LOW)
  }

  /** @param traceId four words, big-endian, the last two of which decide. */
  isSampled(traceId: Uint32Array): boolean {
    const high = traceId[2]! & 0xff_ffff
    return high > this.#high || (high === this.#high && traceId[3]! >= this.#low)
  }
}
