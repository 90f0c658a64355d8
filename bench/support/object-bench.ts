import { HASH_BYTES } from '../../src/core/hash-chain.ts'
import { type KeyBatch, type KeySpace, OUTCOME_OK } from '../../src/l2/adapter.ts'
import { median } from './pairs.ts'

/** Never aborted. */
export const NEVER = new AbortController().signal

/** What a bench moves, and in what portions. */
export interface ObjectLoad {
  readonly shardBytes: number
  readonly objects: number
  /** Objects of one batch. */
  readonly batch: number
  /** Batches under way at the same time. */
  readonly batchesInFlight: number
}

/** One side's operation on a batch: keys, the number of its first object, room for an outcome a key. */
export type MoveBatch = (batch: KeyBatch, from: number, outcomes: Uint8Array) => Promise<number>

/** Moves the same objects through an adapter again and again. */
export class ObjectBench {
  readonly load: ObjectLoad
  readonly #memory: Uint8Array
  readonly #space: KeySpace

  /** @param memory object i lies at i x shardBytes. */
  constructor(load: ObjectLoad, memory: Uint8Array) {
    this.load = load
    this.#memory = memory
    this.#space = { model: 'bench', salt: '', ranks: 1, rank: 0, shardBytes: load.shardBytes, layout: 'bench' }
  }

  /** GB/s of an operation that moves every object. */
  async rateOf(operation: () => Promise<void>): Promise<number> {
    const { objects, shardBytes } = this.load
    const startMs = performance.now()
    await operation()
    return (objects * shardBytes) / 1e6 / (performance.now() - startMs)
  }

  /** Moves every object, a few batches at a time. @throws when one did not move */
  async moveAll(move: MoveBatch): Promise<void> {
    const { objects, batch, batchesInFlight } = this.load
    let next = 0
    const run = async () => {
      while (next < objects) {
        const from = next
        next += batch
        const outcomes = new Uint8Array(batch)
        await move(this.#batchAt(from), from, outcomes)
        if (outcomes.some((outcome) => outcome !== OUTCOME_OK)) throw new Error(`outcomes ${outcomes}`)
      }
    }
    await Promise.all(Array.from({ length: batchesInFlight }, run))
  }

  slot(at: number): Uint8Array {
    const { shardBytes } = this.load
    return this.#memory.subarray(at * shardBytes, (at + 1) * shardBytes)
  }

  /** The slots of the batch that begins with object `from`. */
  slots(from: number): Uint8Array[] {
    return Array.from({ length: this.load.batch }, (_, key) => this.slot(from + key))
  }

  /** Keys [from, from + batch) of one chain. */
  #batchAt(from: number): KeyBatch {
    const { batch } = this.load
    const hashes = Buffer.alloc(batch * HASH_BYTES)
    const parents = Buffer.alloc(batch * HASH_BYTES)
    for (let key = 0; key < batch; key += 1) {
      hashes.writeUInt32LE(from + key + 1, key * HASH_BYTES)
      if (from + key > 0) parents.writeUInt32LE(from + key, key * HASH_BYTES)
    }
    return { space: this.#space, count: batch, hashes, parents }
  }
}

/** Runs both sides of a pair; which one begins alternates. */
export async function inTurn(
  pair: number,
  first: () => Promise<number>,
  second: () => Promise<number>,
): Promise<[number, number]> {
  if (pair % 2 === 0) return [await first(), await second()]
  const b = await second()
  return [await first(), b]
}

/** One row of a report: the medians of both sides in GB/s, and of their ratios. @param floorName names the floor's columns. */
export function ratioRow(direction: string, floorName: string, ours: readonly number[], floor: readonly number[]) {
  const ratios = ours.map((rate, at) => rate / floor[at]!)
  const round2 = (value: number) => Number(value.toFixed(2))
  return {
    direction,
    ours_gb_per_s: round2(median(ours)),
    [`${floorName}_gb_per_s`]: round2(median(floor)),
    [`ours_to_${floorName}`]: round2(median(ratios)),
    least: round2(Math.min(...ratios)),
    greatest: round2(Math.max(...ratios)),
    pairs: ratios.length,
  }
}

/** Bytes that do not repeat soon. */
export function fillWithNoise(memory: Uint8Array): void {
  for (let offset = 0; offset < memory.length; offset += 4) memory[offset] = Math.imul(offset, 0x9e3779b1) >>> 24
}
