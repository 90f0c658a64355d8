import type { SoakClient } from './soak-clients.ts'

/** Requests of one client within one part of a soak. */
export interface SoakPart {
  readonly second: number
  readonly requests: number
  readonly p50Ms: number
  readonly p99Ms: number
}

const LOAD = 0.8

/** How long a request of each client takes while all of them ask one after another. @returns ms, by client. */
export async function closedLoopMs(clients: readonly SoakClient[], durationMs: number): Promise<number[]> {
  const end = performance.now() + durationMs
  return await Promise.all(
    clients.map(async (client) => {
      const start = performance.now()
      let requests = 0
      while (performance.now() < end || requests === 0) {
        await client.cycle()
        requests += 1
      }
      return (performance.now() - start) / requests
    }),
  )
}

/**
 * A client in an open loop at 80 % of what it reached in the closed one. Latencies count from when a request was due; what
 * is late by more than a second is not made up for.
 */
export class SoakLoop {
  readonly client: SoakClient
  readonly parts: SoakPart[] = []
  readonly #everyMs: number
  #latencies: number[] = []
  #isStopped = false

  constructor(client: SoakClient, closedMs: number) {
    this.client = client
    this.#everyMs = closedMs / LOAD
  }

  async run(): Promise<void> {
    let due = performance.now()
    while (!this.#isStopped) {
      const early = due - performance.now()
      if (early > 0) await new Promise((resolve) => setTimeout(resolve, early))
      await this.client.cycle()
      this.#latencies.push(performance.now() - due)
      due = Math.max(due + this.#everyMs, performance.now() - 1_000)
    }
  }

  stop(): void {
    this.#isStopped = true
  }

  /** Ends one part, and begins the next. */
  endPart(second: number): void {
    const sorted = this.#latencies.sort((one, other) => one - other)
    const at = (share: number) => Number((sorted[Math.floor(share * sorted.length)] ?? 0).toFixed(2))
    this.parts.push({ second, requests: sorted.length, p50Ms: at(0.5), p99Ms: at(0.99) })
    this.#latencies = []
  }
}

/** By how much values grow from the first to the last, along the line that fits them best. */
export function growthOf(values: readonly number[]): number {
  const middle = (values.length - 1) / 2
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length
  let above = 0
  let below = 0
  values.forEach((value, at) => {
    above += (at - middle) * (value - mean)
    below += (at - middle) ** 2
  })
  return below === 0 ? 0 : (above / below) * (values.length - 1)
}
