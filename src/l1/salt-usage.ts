import { assert } from '../core/assert.ts'

/** No limit. */
export const UNLIMITED = Number.POSITIVE_INFINITY

/**
 * L1 bytes by cache salt, over all models, and what each salt may have. A salt gets a row when its first space is
 * opened; rows are never reused. A limit may be set before the salt is seen.
 *
 * Bytes are those of resident, reserved, quarantined and removed-but-leased slots.
 */
export class SaltUsage {
  readonly #rows = new Map<string, number>()
  readonly #salts: string[] = []
  readonly #limits = new Map<string, number>()
  #defaultBytes = UNLIMITED
  #usageBytes = new Float64Array(16)
  #limitBytes = new Float64Array(16)
  #isUnchecked = false

  /** Salts seen so far; rows are 0..count-1. */
  get count(): number {
    return this.#salts.length
  }

  /** Whether some salt may have come to be over its limit otherwise than by a reservation, which cannot. */
  get isUnchecked(): boolean {
    return this.#isUnchecked
  }

  /** Whether any salt has a limit. */
  get hasLimits(): boolean {
    return this.#limits.size > 0 || this.#defaultBytes !== UNLIMITED
  }

  /** The row of a salt, a new one at first sight. */
  open(salt: string): number {
    const known = this.#rows.get(salt)
    if (known !== undefined) return known
    const row = this.#salts.length
    this.#salts.push(salt)
    this.#rows.set(salt, row)
    if (row === this.#usageBytes.length) this.#grow(2 * row)
    this.#limitBytes[row] = this.#limits.get(salt) ?? this.#defaultBytes
    return row
  }

  saltOf(row: number): string {
    return this.#salts[row]!
  }

  usageBytes(row: number): number {
    return this.#usageBytes[row]!
  }

  /** Usage of a salt; 0 for one never seen. */
  usageOf(salt: string): number {
    const row = this.#rows.get(salt)
    return row === undefined ? 0 : this.#usageBytes[row]!
  }

  /** What the salt of a row may have; UNLIMITED when there is no limit. */
  limitBytes(row: number): number {
    return this.#limitBytes[row]!
  }

  add(row: number, amount: number): void {
    const bytes = this.#usageBytes[row]! + amount
    this.#usageBytes[row] = bytes
    assert(bytes >= 0, 'a salt uses less than nothing')
  }

  /** What salts without a limit of their own may have. */
  setDefault(bytes: number): void {
    this.#defaultBytes = bytes
    for (const [salt, row] of this.#rows) if (!this.#limits.has(salt)) this.#limitBytes[row] = bytes
    this.#isUnchecked = true
  }

  /** @param bytes undefined = the default again. */
  setLimit(salt: string, bytes: number | undefined): void {
    if (bytes === undefined) this.#limits.delete(salt)
    else this.#limits.set(salt, bytes)
    const row = this.#rows.get(salt)
    if (row !== undefined) this.#limitBytes[row] = bytes ?? this.#defaultBytes
    this.#isUnchecked = true
  }

  /** The first row over its limit from `from` on; -1 when there is none. From 0 and -1: all are checked. */
  overFrom(from: number): number {
    for (let row = from; row < this.#salts.length; row += 1) {
      if (this.#usageBytes[row]! > this.#limitBytes[row]!) return row
    }
    if (from === 0) this.#isUnchecked = false
    return -1
  }

  #grow(rows: number): void {
    const usage = new Float64Array(rows)
    usage.set(this.#usageBytes)
    this.#usageBytes = usage
    const limits = new Float64Array(rows)
    limits.set(this.#limitBytes)
    this.#limitBytes = limits
  }
}
