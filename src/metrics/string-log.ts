import { assert } from '../core/assert.ts'

// The shared buffer:
//
//   Int32    count | used units | rowsMax | fieldsPerRow | unitsMax | overflow | 2 spare
//   Int32    end of each string, in units: rowsMax x fieldsPerRow
//   Int32    flag of each row
//   Uint16   UTF-16 code units of all strings, end to end
//
// The writer fills a row's strings and ends, then moves `count`: a row that a reader sees is whole.
const COUNT = 0
const USED = 1
const ROWS_MAX = 2
const FIELDS = 3
const UNITS_MAX = 4
const OVERFLOW = 5
const HEADER_INTS = 8

/** Rows of strings in shared memory, append-only: one thread writes, any thread reads. A row never changes. */
export class StringLog {
  readonly buffer: SharedArrayBuffer
  readonly #header: Int32Array
  readonly #ends: Int32Array
  readonly #flags: Int32Array
  readonly #units: Uint16Array
  readonly #fields: number

  private constructor(buffer: SharedArrayBuffer) {
    this.buffer = buffer
    this.#header = new Int32Array(buffer, 0, HEADER_INTS)
    const rows = this.#header[ROWS_MAX]!
    this.#fields = this.#header[FIELDS]!
    this.#ends = new Int32Array(buffer, HEADER_INTS * 4, rows * this.#fields)
    this.#flags = new Int32Array(buffer, (HEADER_INTS + rows * this.#fields) * 4, rows)
    const start = (HEADER_INTS + rows * (this.#fields + 1)) * 4
    this.#units = new Uint16Array(buffer, start, this.#header[UNITS_MAX]!)
  }

  /** @param unitsMax UTF-16 code units over all strings. */
  static create(rowsMax: number, fieldsPerRow: number, unitsMax: number): StringLog {
    const buffer = new SharedArrayBuffer((HEADER_INTS + rowsMax * (fieldsPerRow + 1)) * 4 + unitsMax * 2)
    const header = new Int32Array(buffer, 0, HEADER_INTS)
    header[ROWS_MAX] = rowsMax
    header[FIELDS] = fieldsPerRow
    header[UNITS_MAX] = unitsMax
    return new StringLog(buffer)
  }

  static attach(buffer: SharedArrayBuffer): StringLog {
    return new StringLog(buffer)
  }

  get rowsMax(): number {
    return this.#header[ROWS_MAX]!
  }

  /** Rows written. */
  size(): number {
    return Atomics.load(this.#header, COUNT)
  }

  /** @returns the new row, or -1 when the rows or the units are used up. */
  append(strings: readonly string[]): number {
    assert(strings.length === this.#fields, 'row of another width')
    const row = this.#header[COUNT]!
    let used = this.#header[USED]!
    const needed = strings.reduce((sum, text) => sum + text.length, 0)
    if (row === this.rowsMax || used + needed > this.#units.length) return -1
    for (const [field, text] of strings.entries()) {
      for (let i = 0; i < text.length; i += 1) this.#units[used + i] = text.charCodeAt(i)
      used += text.length
      this.#ends[row * this.#fields + field] = used
    }
    this.#header[USED] = used
    Atomics.store(this.#header, COUNT, row + 1)
    return row
  }

  /** A string of a row below `size()`. */
  text(row: number, field: number): string {
    const at = row * this.#fields + field
    const start = at === 0 ? 0 : this.#ends[at - 1]!
    let text = ''
    for (let i = start; i < this.#ends[at]!; i += 1) text += String.fromCharCode(this.#units[i]!)
    return text
  }

  flag(row: number): number {
    return Atomics.load(this.#flags, row)
  }

  setFlag(row: number, value: number): void {
    Atomics.store(this.#flags, row, value)
  }

  overflow(): number {
    return Atomics.load(this.#header, OVERFLOW) >>> 0
  }

  countOverflow(): void {
    Atomics.add(this.#header, OVERFLOW, 1)
  }
}
