import type { Fault } from './fault-adapter.ts'
import type { FaultAdapterOptions } from './options.ts'

/** The faults of a run: each call of the result draws the next one. */
export function seededFaults(options: FaultAdapterOptions): () => Fault {
  const { latencyMs, errorRate, corruptRate, hangRate, seed } = options
  const draw = mulberry32(seed)
  return () => {
    // Every call draws the same number of times, so that one rate does not change what the others hit.
    const [isHung, isRefused, isCorrupt] = [draw() < hangRate, draw() < errorRate, draw() < corruptRate]
    const effect = isHung ? 'hang' : isRefused ? 'reject' : isCorrupt ? 'corrupt' : 'none'
    return { effect, delayMs: latencyMs }
  }
}

/** A small generator of numbers 0..1: not for secrets. */
function mulberry32(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
