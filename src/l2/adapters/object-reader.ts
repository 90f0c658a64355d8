import type { Clock } from '../../core/clock.ts'
import { HASH_BYTES, HASH_WORDS } from '../../core/hash-chain.ts'
import { type KeyBatch, OUTCOME_CORRUPT, OUTCOME_FAILED, OUTCOME_NOT_FOUND, OUTCOME_OK } from '../adapter.ts'
import type { KeyWords } from '../key-words.ts'
import type { RecordFormat } from '../object-format.ts'
import type { ObjectIndex } from '../object-index.ts'
import type { SpaceEntry } from '../space-table.ts'
import { errorCode } from './disk.ts'
import type { Lane } from './lanes.ts'
import { fileBytes, type ObjectFiles } from './object-files.ts'
import type { ObjectRemover } from './object-remover.ts'

export interface ReaderParts {
  readonly clock: Clock
  readonly files: ObjectFiles
  readonly remover: ObjectRemover
  readonly index: ObjectIndex
}

/** The batch that objects are read for. */
export interface Reading {
  readonly batch: KeyBatch
  readonly space: SpaceEntry
  readonly format: RecordFormat
  readonly hashes: KeyWords
}

/** Reads objects of a directory and verifies them. What is corrupt is quarantined, what is missing is forgotten. */
export class ObjectReader {
  /** Records that were not what they should be. */
  checksumFailures = 0
  readonly #parts: ReaderParts

  constructor(parts: ReaderParts) {
    this.#parts = parts
  }

  /** Reads object `key` into `target` (shardBytes). @returns an OUTCOME_*; unless OK, target is garbage. */
  async read({ batch, space, format, hashes }: Reading, key: number, target: Uint8Array, lane: Lane): Promise<number> {
    const { files, remover, index, clock } = this.#parts
    if (!index.isHeld(index.find(space.id, hashes, key))) return OUTCOME_NOT_FOUND
    const path = files.pathOf(space, hexOf(batch.hashes, key))
    const words = hashes.subarray(key * HASH_WORDS)
    let length: number
    try {
      length = await files.read(path, lane.header, target, lane.spare)
    } catch (error) {
      if (errorCode(error) !== 'ENOENT') return OUTCOME_FAILED
      await remover.alone(() => remover.forgetMissing(space, words))
      return OUTCOME_NOT_FOUND
    }
    const isLength = length === fileBytes(target.length)
    if (isLength && format.verify(batch, key, lane.header, target) === undefined) return OUTCOME_OK
    this.checksumFailures += 1
    await remover.alone(() => remover.quarantine(space, words, clock.wallMs()))
    return OUTCOME_CORRUPT
  }
}

/** 64 hex digits of the hash of key `key`. */
export function hexOf(hashes: Uint8Array, key: number): string {
  const at = hashes.byteOffset + key * HASH_BYTES
  return Buffer.from(hashes.buffer, at, HASH_BYTES).toString('hex')
}
