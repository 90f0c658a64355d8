import { SystemClock } from '../src/core/clock.ts'
import { HASH_WORDS, HashChain } from '../src/core/hash-chain.ts'
import { NO_LEASE, type SpaceId } from '../src/core/ids.ts'
import type { Engine } from '../src/engine/engine.ts'
import { SlotList } from '../src/l1/slot-list.ts'
import { MetricCells } from '../src/metrics/cells.ts'
import { openSegment } from '../src/native/shared-memory.ts'
import { composeBenchEngine } from './support/bench-engine.ts'
import { type PairsResult, runPairs, type Side } from './support/pairs.ts'

/**
 * The whole engine with real bytes in L1, beside plain copies of as many bytes in pieces of the same length.
 *
 * The engine serves prompts of 16 chunks: lookup, copy the hits out, reserve, copy the rest in, commit, release.
 * About half of the chunks hit, and every store evicts. Both sides count each copied byte once. Clients of the MP wire
 * copy by themselves in other processes; here the copies are made by the same thread, as the HTTP service and the
 * replay make them.
 */
const MIB = 1024 * 1024
const ARENA_BYTES = 512 * MIB
const MOVED_BYTES = 1024 * MIB
const PROMPT_CHUNKS = 16
const SHARDS_KIB = [64, 256, 1024, 4096]

/** A prompt whose first half is one of few common prefixes, and whose second half is new. */
function writePrompt(chain: HashChain, prefix: number, serial: number): void {
  for (let index = 0; index < PROMPT_CHUNKS; index += 1) {
    const isCommon = index < PROMPT_CHUNKS / 2
    const at = index * HASH_WORDS
    chain.words[at] = Math.imul(isCommon ? prefix + 1 : serial + 7, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca6b)
    chain.words[at + 1] = isCommon ? prefix : serial
    chain.words[at + 2] = index
    chain.words[at + 3] = isCommon ? 1 : 2
  }
  chain.count = PROMPT_CHUNKS
}

class EngineSide implements Side {
  readonly name = 'engine'
  readonly #engine: Engine
  readonly #memory: Uint8Array
  readonly #space: SpaceId
  readonly #client: Uint8Array
  readonly #chain = new HashChain(PROMPT_CHUNKS)
  readonly #slots = new SlotList()
  #serial = 0
  hitChunks = 0
  chunks = 0

  constructor(engine: Engine, memory: Uint8Array, shardBytes: number) {
    this.#engine = engine
    this.#memory = memory
    this.#client = new Uint8Array(shardBytes * PROMPT_CHUNKS).fill(1)
    this.#space = engine.openSpace({ model: `m${shardBytes}`, salt: '', ranks: 1, shardBytes, layout: '' })
  }

  readonly run = (): number => {
    let moved = 0
    while (moved < MOVED_BYTES) moved += this.#serve()
    return moved
  }

  #serve(): number {
    const engine = this.#engine
    const chain = this.#chain
    this.#serial += 1
    writePrompt(chain, this.#serial % 4, this.#serial)
    const lookup = engine.lookup(this.#space, chain, 1)
    const { hitChunks } = lookup
    this.hitChunks += hitChunks
    this.chunks += chain.count
    this.#slots.clear()
    engine.slots(lookup, 0, 0, hitChunks, this.#slots)
    let moved = this.#copy(false)
    engine.served(lookup, 0, hitChunks)
    const lease = engine.reserve(this.#space, 0, chain, hitChunks, chain.count, 1, this.#slots)
    if (lease !== NO_LEASE) {
      moved += this.#copy(true)
      engine.commit(this.#space, 0, lease)
    }
    engine.release(lookup)
    return moved
  }

  #copy(isIn: boolean): number {
    const { count, chainIndex, offset, length } = this.#slots
    let moved = 0
    for (let row = 0; row < count; row += 1) {
      const bytes = length[row]!
      const slot = this.#memory.subarray(offset[row]!, offset[row]! + bytes)
      const own = this.#client.subarray(chainIndex[row]! * bytes, (chainIndex[row]! + 1) * bytes)
      if (isIn) slot.set(own)
      else own.set(slot)
      moved += bytes
    }
    return moved
  }
}

/** Pieces from a client buffer into a buffer as large as the arena, and back, in turn. */
function plainSide(shardBytes: number): Side {
  const large = new Uint8Array(ARENA_BYTES).fill(1)
  const client = new Uint8Array(shardBytes * PROMPT_CHUNKS).fill(1)
  let at = 0
  const run = () => {
    let piece = 0
    for (let moved = 0; moved < MOVED_BYTES; moved += shardBytes) {
      const slot = large.subarray(at, at + shardBytes)
      const start = (piece % PROMPT_CHUNKS) * shardBytes
      const own = client.subarray(start, start + shardBytes)
      if ((piece >> 3) % 2 === 0) own.set(slot)
      else slot.set(own)
      at = (at + shardBytes) % ARENA_BYTES
      piece += 1
    }
    return MOVED_BYTES
  }
  return { name: 'plain copy', run }
}

function row(shardKib: number, hitRatio: number, { a, b, ratio, ratioMin, ratioMax, pairs }: PairsResult) {
  return {
    shard_kib: shardKib,
    hit_ratio: Number(hitRatio.toFixed(2)),
    engine_gb_per_s: Number((1 / a.medianNs).toFixed(2)),
    plain_gb_per_s: Number((1 / b.medianNs).toFixed(2)),
    engine_to_plain: Number((1 / ratio).toFixed(2)),
    least: Number((1 / ratioMax).toFixed(2)),
    greatest: Number((1 / ratioMin).toFixed(2)),
    cpu_engine_to_plain: Number((b.cpuMedianNs / a.cpuMedianNs).toFixed(2)),
    pairs,
  }
}

async function main(): Promise<void> {
  const segment = await openSegment({ name: `kvtier-bench-${process.pid}`, bytes: ARENA_BYTES })
  segment.unlink()
  const rows = []
  for (const shardKib of SHARDS_KIB) {
    const runtime = composeBenchEngine({
      clock: new SystemClock(),
      cells: MetricCells.create(),
      memory: segment.memory,
      arenaBytes: ARENA_BYTES,
      chunkTokens: 256,
      hashInlineChunks: PROMPT_CHUNKS,
    })
    const side = new EngineSide(runtime.engine, segment.memory, shardKib * 1024)
    const pairs = await runPairs(side, plainSide(shardKib * 1024))
    rows.push(row(shardKib, side.hitChunks / side.chunks, pairs))
    runtime.stop()
  }
  segment.close()
  if (process.argv.includes('--json')) console.log(JSON.stringify({ rows }))
  else console.table(rows)
}

await main()
