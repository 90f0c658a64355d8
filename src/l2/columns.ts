/** A longer column with the same beginning; the rest is 0. */
export function enlarge<Column extends Uint32Array<ArrayBuffer> | Uint8Array<ArrayBuffer> | Float64Array<ArrayBuffer>>(
  column: Column,
  length: number,
): Column {
  const larger = new (column.constructor as new (length: number) => Column)(length)
  larger.set(column)
  return larger
}

/** A sum for each row of a table whose rows become more. */
export class RowSums {
  #sums = new Float64Array(16)

  /** Of a row that nothing was added to, 0. */
  of(row: number): number {
    return this.#sums[row] ?? 0
  }

  add(row: number, amount: number): void {
    if (row >= this.#sums.length) this.#sums = enlarge(this.#sums, 2 * row)
    this.#sums[row]! += amount
  }

  /** Rows are 0..end-1, so far or further. */
  get end(): number {
    return this.#sums.length
  }
}
