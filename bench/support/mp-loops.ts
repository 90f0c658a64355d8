import { setTimeout as sleep } from 'node:timers/promises'
import type { MpCycles } from './mp-cycles.ts'
import { SampleSet } from './samples.ts'

const IN_FLIGHT_MAX = 4096
/** A turn of the generator: node's timers are no finer than this. */
const TURN_MS = 2
/** Every so many requests of a client a new prompt is stored; the others hit. */
const STORE_EVERY = 4

/** Request number `turn` of a client: a hit or a store. @param due when it was due. */
function request(cycles: MpCycles, turn: number, samples: SampleSet | null, due?: number): Promise<void> {
  if (turn % STORE_EVERY === 0) return cycles.store('token_bytes', samples)
  return cycles.hit('token_bytes', samples, { ...(due === undefined ? {} : { due }) })
}

/** Requests a second that `cycles` get done when each of them asks without pause, with a ping beside each. */
export async function capacityOf(cycles: readonly MpCycles[], ms: number): Promise<number> {
  const start = performance.now()
  let done = 0
  const runs = cycles.map(async (one, first) => {
    for (let turn = first; performance.now() - start < ms; turn += 1) {
      await Promise.all([request(one, turn, null), one.ping(null)])
      done += 1
    }
  })
  await Promise.all(runs)
  return (done * 1000) / (performance.now() - start)
}

/**
 * Open loop: requests start at random moments, `rate` a second over all clients, whether or not earlier ones are done,
 * and as many pings beside them.
 *
 *     due      |  x    x x      |     x        |  x x  (stall)  x    x   x  |
 *     turns    |<-- <= 2 ms --->|<------------>|<------- longer ----------->|
 *     counted            from here      from here   each from when it was due
 *
 * What is due within a turn of the generator is sent at its end, and its time counts from there: node's timers are no
 * finer. After a longer turn this process or the machine was late, and time counts from when a request was due: a stall
 * is in the samples of all that it delayed (no coordinated omission).
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
  let dueRequest = start
  let duePing = start
  let next = 0
  for (let now = start, last = start; now - start < ms; now = performance.now()) {
    const isLate = now - last > TURN_MS
    last = now
    for (; dueRequest <= now; dueRequest += pauseMs(rate), next += 1) {
      launch(request(cycles[next % cycles.length]!, next, samples, isLate ? dueRequest : now))
    }
    for (; duePing <= now; duePing += pauseMs(rate), next += 1) {
      launch(cycles[next % cycles.length]!.ping(samples, isLate ? duePing : now))
    }
    await sleep(1)
  }
  await Promise.all(running)
  return samples
}

/** Between two events of a Poisson process. */
function pauseMs(rate: number): number {
  return (-Math.log(1 - Math.random()) * 1000) / rate
}
