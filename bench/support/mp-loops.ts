import { setTimeout as sleep } from 'node:timers/promises'
import type { MpCycles } from './mp-cycles.ts'
import { SampleSet } from './samples.ts'

const IN_FLIGHT_MAX = 4096

/** Cycles a second that `cycles` get done when each of them asks without pause. */
export async function capacityOf(cycles: readonly MpCycles[], ms: number): Promise<number> {
  const start = performance.now()
  let done = 0
  const runs = cycles.map(async (one) => {
    while (performance.now() - start < ms) {
      await Promise.all([one.hit('token_bytes', null), one.ping(null)])
      done += 1
    }
  })
  await Promise.all(runs)
  return (done * 1000) / (performance.now() - start)
}

/**
 * Open loop: cycles start at random moments, `rate` a second over all clients, whether or not earlier ones are done, and
 * as many pings beside them. Times count from the sending of each request.
 */
export async function openLoop(cycles: readonly MpCycles[], rate: number, ms: number): Promise<SampleSet> {
  const samples = new SampleSet()
  const running = new Set<Promise<void>>()
  const launch = (run: Promise<void>) => {
    const kept: Promise<void> = run.finally(() => running.delete(kept))
    running.add(kept)
    if (running.size > IN_FLIGHT_MAX) throw new Error('the engine falls behind at half of its capacity')
  }
  const start = performance.now()
  let dueCycle = start
  let duePing = start
  let next = 0
  for (let now = start; now - start < ms; now = performance.now()) {
    for (; dueCycle <= now; dueCycle += pauseMs(rate))
      launch(cycles[next++ % cycles.length]!.hit('token_bytes', samples))
    for (; duePing <= now; duePing += pauseMs(rate)) launch(cycles[next++ % cycles.length]!.ping(samples))
    await sleep(1)
  }
  await Promise.all(running)
  return samples
}

/** Between two events of a Poisson process. */
function pauseMs(rate: number): number {
  return (-Math.log(1 - Math.random()) * 1000) / rate
}
