import { assert } from '../core/assert.ts'
import type { DevicePath } from '../engine/device-path.ts'
import type { Engine } from '../engine/engine.ts'
import type { ChunkChecker } from './chunk-checker.ts'
import { fillPattern } from './chunk-pattern.ts'
import type { DataPath, Flight } from './data-path.ts'
import type { ReplayCounts } from './replay-counts.ts'

export interface GpuPathParts {
  readonly engine: Engine
  readonly device: DevicePath
  /** The memory of the simulated device, or null when only metadata is kept. */
  readonly memory: Uint8Array | null
  readonly chunkBytes: number
  readonly counts: ReplayCounts
  readonly checker: ChunkChecker
}

/** A server on the simulated device: chunks are copied up into L0 blocks, and from those it computed down into L1. */
export class GpuPath implements DataPath {
  readonly #parts: GpuPathParts

  constructor(parts: GpuPathParts) {
    const { device, chunkBytes, memory } = parts
    assert(memory === null || device.blocks.blockBytes === chunkBytes, 'an L0 block is not one chunk')
    this.#parts = parts
  }

  fetch(flight: Flight, done: (chunks: number) => void): void {
    const { engine, device, memory, counts } = this.#parts
    const lookup = flight.lookup!
    const request = device.begin(lookup)
    flight.device = request
    device.fetch(engine, request, (chunks) => {
      if (chunks < lookup.hitChunks) counts.unfetchedChunks += lookup.hitChunks - chunks
      for (let index = 0; memory !== null && index < chunks; index += 1) {
        this.#parts.checker.check(this.#chunk(memory, flight, index), flight.chain, index)
      }
      done(chunks)
    })
  }

  store(flight: Flight, done: (chunks: number) => void): void {
    const { engine, device } = this.#parts
    if (this.#compute(flight)) device.store(engine, flight.device!, done)
    else done(0)
  }

  end(flight: Flight): void {
    this.#parts.device.end(flight.device!)
    flight.device = null
  }

  /** Fills blocks for the chunks that were not served. False when L0 has no room. */
  #compute(flight: Flight): boolean {
    const { device, memory } = this.#parts
    const { chain } = flight
    const request = flight.device!
    const from = request.table.to
    if (from === chain.count) return true
    if (!device.extend(request)) return false
    for (let index = from; memory !== null && index < chain.count; index += 1) {
      if (device.blocks.needsFill(request.table, index)) fillPattern(this.#chunk(memory, flight, index), chain, index)
    }
    device.computed(request)
    return true
  }

  /** The bytes of a chunk on the device: one block, as the constructor checks. */
  #chunk(memory: Uint8Array, flight: Flight, index: number): Uint8Array {
    const { device, chunkBytes } = this.#parts
    const offset = device.blocks.firstBlock(flight.device!.table.runOf(index)) * chunkBytes
    return memory.subarray(offset, offset + chunkBytes)
  }
}
