import type { KeyBatch } from '../../adapter.ts'
import type { KeyWords } from '../../key-words.ts'
import type { RecordFormat } from '../../object-format.ts'
import type { SpaceEntry } from '../../space-table.ts'

/** One store or load batch under way. */
export interface ObjectBatch {
  readonly batch: KeyBatch
  readonly space: SpaceEntry
  readonly format: RecordFormat
  readonly hashes: KeyWords
  readonly parents: KeyWords
  /** Names of the objects. */
  readonly keys: readonly string[]
  readonly outcomes: Uint8Array
  /** Moved so far. */
  bytes: number
}
