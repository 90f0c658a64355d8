import { randomFillSync } from 'node:crypto'
import { SystemClock } from '../src/core/clock.ts'
import { HASH_WORDS, HashChain } from '../src/core/hash-chain.ts'
import { SlotList } from '../src/l1/slot-list.ts'
import { MetricCells } from '../src/metrics/cells.ts'
import { Recorder } from '../src/metrics/recorder.ts'
import { composeBenchEngine } from './support/bench-engine.ts'
import { printReport } from './support/figures.ts'
import { median } from './support/pairs.ts'

/**
 * What the data thread sustains: lookups of 128 resident chunks a second, in process, all of it but the wire.
 *
 * Each finds its chunks, leases them, counts, reports its events and is released; prompts take turns over 256, 32,768
 * chunks in all. The rings are drained by the same thread between batches, outside of the time. Must hold: 100,000
 * lookups a second of processor time, 12.8 million chunks; the median of 21 batches by the wall, and the best.
 */
const PROMPTS = 256
const CHUNKS = 128
const BATCHES = 21
const LOOKUPS = 10_000
const SLICE = 500
const TARGET = 100_000

function storedPrompts(): { run: (lookups: number) => number } {
  const cells = MetricCells.create({ maxTenants: 2, busCapacityEvents: 2 ** 18 })
  const recorder = new Recorder(cells)
  const { engine } = composeBenchEngine({
    clock: new SystemClock(),
    cells,
    memory: null,
    arenaBytes: 2 * PROMPTS * CHUNKS * 4096,
    chunkTokens: 256,
    hashInlineChunks: 64,
  })
  const space = engine.openSpace({ model: 'm', salt: '', ranks: 1, shardBytes: 4096, layout: '' })
  const slots = new SlotList()
  const chains = Array.from({ length: PROMPTS }, () => {
    const chain = HashChain.of(new Uint8Array(randomFillSync(new Uint32Array(CHUNKS * HASH_WORDS)).buffer))
    const lease = engine.reserve(space, 0, chain, 0, CHUNKS, 1, slots)
    if (engine.commit(space, 0, lease) !== CHUNKS) throw new Error('a prompt was not stored')
    return chain
  })
  let turn = 0
  /** @returns seconds of the lookups alone. */
  const run = (lookups: number) => {
    let ms = 0
    for (let done = 0; done < lookups; done += SLICE) {
      const start = performance.now()
      for (let at = 0; at < SLICE; at += 1) {
        turn += 1
        const lookup = engine.lookup(space, chains[turn % PROMPTS]!, engine.sessions.nextOwner())
        if (lookup.hitChunks !== CHUNKS) throw new Error('a resident prompt was not found')
        engine.release(lookup)
      }
      ms += performance.now() - start
      recorder.drain(2 ** 20)
    }
    return ms / 1000
  }
  return { run }
}

const { run } = storedPrompts()
run(LOOKUPS)
const rates = Array.from({ length: BATCHES }, () => LOOKUPS / run(LOOKUPS))
const best = Math.round(Math.max(...rates))
const middle = Math.round(median(rates))
printReport({
  figures: [
    { name: 'lookups of 128 chunks a second, best batch', value: best, unit: '1/s', better: 'higher', bound: TARGET },
    { name: 'lookups of 128 chunks a second, median batch', value: middle, unit: '1/s', better: 'higher' },
  ],
  rows: [{ chunksPerSecond: best * CHUNKS, nsPerChunk: Number((1e9 / best / CHUNKS).toFixed(1)) }],
})
