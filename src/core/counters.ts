import { assert } from './assert.ts'

/**
 * Exact numbers by meaning: rows (label sets) x fields, in doubles that may lie in shared memory.
 * One thread writes, any thread reads. The owner of a table (a tier) adds in place:
 * `values[row * stride + FIELD] += n`. Only `metrics/` knows which metric a field is.
 */
export class CounterTable<Field extends string = string> {
  readonly fields: readonly Field[]
  readonly rows: number
  /** rows x fields, row-major. */
  readonly values: Float64Array
  readonly stride: number

  /** @param values rows x fields doubles, all 0; made here when absent. */
  constructor(fields: readonly Field[], rows: number, values: Float64Array = new Float64Array(rows * fields.length)) {
    assert(values.length === rows * fields.length, 'counter table of another size')
    this.fields = fields
    this.rows = rows
    this.values = values
    this.stride = fields.length
  }

  /** The column of a field. Look it up once, at construction. */
  column(field: Field): number {
    const column = this.fields.indexOf(field)
    assert(column >= 0, 'unknown counter field')
    return column
  }

  add(row: number, field: Field, amount: number): void {
    const at = row * this.stride + this.column(field)
    this.values[at] = this.values[at]! + amount
  }

  set(row: number, field: Field, value: number): void {
    this.values[row * this.stride + this.column(field)] = value
  }

  get(row: number, field: Field): number {
    return this.values[row * this.stride + this.column(field)]!
  }

  /** Sum of a field over all rows. */
  sum(field: Field): number {
    const column = this.column(field)
    let total = 0
    for (let row = 0; row < this.rows; row += 1) total += this.values[row * this.stride + column]!
    return total
  }
}
