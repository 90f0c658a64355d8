import { createHash } from 'node:crypto'
import type { KeySpace } from './adapter.ts'

/** A space that an adapter has seen. */
export interface SpaceEntry {
  /** Number in the object index, 0 upwards. */
  readonly id: number
  readonly space: KeySpace
  /** 32 lower-case hex digits made from every field: a file name that no model or salt can choose. */
  readonly digest: string
}

/**
 * The spaces of one adapter as small numbers. All fields make the identity: objects of another layout or length are
 * another space, so that after a change of model they are simply not found, and age out.
 */
export class SpaceTable {
  readonly #byText = new Map<string, SpaceEntry>()
  readonly #entries: SpaceEntry[] = []
  readonly #salts = new Map<string, number>()
  readonly #saltRows: number[] = []

  get entries(): readonly SpaceEntry[] {
    return this.#entries
  }

  /** The entry of a space, a new one at first sight. */
  open(space: KeySpace): SpaceEntry {
    const text = spaceText(space)
    const known = this.#byText.get(text)
    if (known !== undefined) return known
    const { model, salt, ranks, rank, shardBytes, layout } = space
    const kept = { model, salt, ranks, rank, shardBytes, layout }
    const entry = { id: this.#entries.length, space: kept, digest: spaceDigest(space) }
    this.#byText.set(text, entry)
    this.#entries.push(entry)
    let row = this.#salts.get(salt)
    if (row === undefined) {
      row = this.#salts.size
      this.#salts.set(salt, row)
    }
    this.#saltRows.push(row)
    return entry
  }

  /** Salts as rows of 0 upwards, in order of first sight. */
  get salts(): ReadonlyMap<string, number> {
    return this.#salts
  }

  /** The row of a space's salt. */
  saltRowOf(space: number): number {
    return this.#saltRows[space]!
  }

  find(space: KeySpace): SpaceEntry | undefined {
    return this.#byText.get(spaceText(space))
  }

  byId(id: number): SpaceEntry {
    return this.#entries[id]!
  }

  /** Which spaces a filter names: a model, a model and salt, a salt of any model, or all. */
  matching(filter: { readonly model?: string; readonly salt?: string }): SpaceEntry[] {
    return this.#entries.filter(
      ({ space }) =>
        (filter.model === undefined || filter.model === space.model) &&
        (filter.salt === undefined || filter.salt === space.salt),
    )
  }
}

export function spaceDigest(space: KeySpace): string {
  return createHash('sha256').update(spaceText(space), 'utf16le').digest('hex').slice(0, 32)
}

/** One text for each space: JSON escapes what could run two fields together. */
function spaceText({ model, salt, ranks, rank, shardBytes, layout }: KeySpace): string {
  return JSON.stringify([model, salt, ranks, rank, shardBytes, layout])
}
