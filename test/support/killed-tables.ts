import type { L1Tables } from '../../src/l1/l1-tables.ts'

/** What a store throws when the process that made it is to be dead. */
export class Killed extends Error {}

/** Counts down the stores to tables; the store after the last allowed one does not happen, and throws `Killed`. */
export class StoreFuse {
  /** Stores that still happen. */
  left = Number.POSITIVE_INFINITY
  /** Stores so far. */
  count = 0
  readonly #blow: () => void

  /** @param blow what happens in place of the store that is one too many. It does not return. */
  constructor(
    blow: () => void = () => {
      throw new Killed('killed')
    },
  ) {
    this.#blow = blow
  }

  burn(): void {
    if (this.left <= 0) this.#blow()
    this.left -= 1
    this.count += 1
  }
}

/** The same tables, each store to which burns the fuse. Slow: for tests. */
export function fusedTables(tables: L1Tables, fuse: StoreFuse): L1Tables {
  const wrap = <Columns extends object>(columns: Columns): Columns => {
    const entries = Object.entries(columns).map(([name, column]) => [name, fused(column, fuse)])
    return Object.fromEntries(entries) as Columns
  }
  return {
    chunks: fused(tables.chunks, fuse),
    shards: fused(tables.shards, fuse),
    leases: wrap(tables.leases),
    copies: wrap(tables.copies),
    arenas: tables.arenas?.map(wrap) ?? null,
  }
}

function fused<Table extends object>(table: Table, fuse: StoreFuse): Table {
  return new Proxy(table, {
    get(target, key) {
      const value = Reflect.get(target, key, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
    set(target, key, value) {
      fuse.burn()
      return Reflect.set(target, key, value, target)
    },
  })
}
