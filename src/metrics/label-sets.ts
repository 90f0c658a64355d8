import { assert } from '../core/assert.ts'
import { MODEL_LENGTH_MAX, SALT_LENGTH_MAX, type TenantId } from '../core/ids.ts'
import { labelText } from './label-text.ts'
import { StringLog } from './string-log.ts'

/** Salt and model of the row that all pairs past the limit share. */
export const OTHER = '__other__'
export const MAX_TENANTS_DEFAULT = 200
/** Returned by `NameTable.rowOf` when every row is taken. */
export const NO_ROW = -1

export interface TenantLabels {
  readonly model: string
  readonly salt: string
}

const FOLD_LABELS: TenantLabels = { model: OTHER, salt: OTHER }

/**
 * The (model_name, cache_salt) pairs of the process as row numbers, with the cardinality guard: rows
 * 0..maxTenants-1 in order of first sight, and a last row for all pairs after that. One thread writes.
 */
export class TenantTable {
  readonly buffer: SharedArrayBuffer
  /** Rows of a per-tenant table: maxTenants, and the fold. */
  readonly rows: number
  /** The row that pairs past the limit share. */
  readonly fold: TenantId
  readonly #log: StringLog
  readonly #rowOf = new Map<string, TenantId>()
  readonly #labels: TenantLabels[] = []

  private constructor(log: StringLog) {
    this.#log = log
    this.buffer = log.buffer
    this.rows = log.rowsMax + 1
    this.fold = log.rowsMax as TenantId
  }

  static create({ maxTenants = MAX_TENANTS_DEFAULT }: { maxTenants?: number } = {}): TenantTable {
    assert(maxTenants >= 1, 'no tenant rows')
    return new TenantTable(StringLog.create(maxTenants, 2, maxTenants * (MODEL_LENGTH_MAX + SALT_LENGTH_MAX)))
  }

  /** The table of another thread, to read. */
  static attach(buffer: SharedArrayBuffer): TenantTable {
    return new TenantTable(StringLog.attach(buffer))
  }

  /**
   * The row of a pair, a new one at first sight. Every call that ends in the fold counts as one overflow. Any
   * string is taken; the pair (`__other__`, `__other__`) is the fold itself. Only the writing thread calls this.
   */
  tenantOf(model: string, salt: string): TenantId {
    const key = `${model.length}:${model}${salt}`
    const known = this.#rowOf.get(key)
    if (known !== undefined) return known
    const isFoldName = model === OTHER && salt === OTHER
    const row = isFoldName ? -1 : this.#log.append([model, salt])
    if (row < 0) {
      this.#log.countOverflow()
      return this.fold
    }
    this.#rowOf.set(key, row as TenantId)
    return row as TenantId
  }

  /** The row of a pair that has one; undefined otherwise. Only for the writing thread. */
  find(model: string, salt: string): TenantId | undefined {
    return this.#rowOf.get(`${model.length}:${model}${salt}`)
  }

  /** Label values of a row, exportable (see `labelText`); undefined for a row without a pair. */
  labels(row: number): TenantLabels | undefined {
    if (row === this.fold) return FOLD_LABELS
    if (row >= this.size()) return undefined
    for (let next = this.#labels.length; next <= row; next += 1) {
      this.#labels.push({ model: labelText(this.#log.text(next, 0)), salt: labelText(this.#log.text(next, 1)) })
    }
    return this.#labels[row]
  }

  /** Pairs with a row of their own. */
  size(): number {
    return this.#log.size()
  }

  /** Calls of `tenantOf` that ended in the fold. */
  overflow(): number {
    return this.#log.overflow()
  }
}

/**
 * Unique configured names (`l2_name`) as row numbers. A name keeps its row for the life of the process, so that
 * its counters go on when it is attached again; a row is never given to another name. One thread writes.
 */
export class NameTable {
  readonly buffer: SharedArrayBuffer
  readonly rows: number
  readonly #log: StringLog
  readonly #rowOf = new Map<string, number>()
  readonly #names: string[] = []

  private constructor(log: StringLog) {
    this.#log = log
    this.buffer = log.buffer
    this.rows = log.rowsMax
  }

  static create({ rows, lengthMax = 128 }: { rows: number; lengthMax?: number }): NameTable {
    return new NameTable(StringLog.create(rows, 1, rows * lengthMax))
  }

  /** The table of another thread, to read. */
  static attach(buffer: SharedArrayBuffer): NameTable {
    return new NameTable(StringLog.attach(buffer))
  }

  /** The row of a name, attached from now on; NO_ROW when there is none left. Only the writing thread calls this. */
  rowOf(name: string): number {
    let row = this.#rowOf.get(name) ?? NO_ROW
    if (row === NO_ROW) row = this.#log.append([name])
    if (row === NO_ROW) return NO_ROW
    this.#rowOf.set(name, row)
    this.#log.setFlag(row, 1)
    return row
  }

  /** The name is no longer in use: its gauges vanish from the exposition, its counters stay. */
  detach(row: number): void {
    this.#log.setFlag(row, 0)
  }

  isAttached(row: number): boolean {
    return row < this.size() && this.#log.flag(row) === 1
  }

  /** Label value of a row, exportable; undefined for a row without a name. */
  label(row: number): string | undefined {
    if (row >= this.size()) return undefined
    for (let next = this.#names.length; next <= row; next += 1) this.#names.push(labelText(this.#log.text(next, 0)))
    return this.#names[row]
  }

  /** Names with a row. */
  size(): number {
    return this.#log.size()
  }
}
