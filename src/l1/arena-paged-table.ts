const PAGE_BITS = 14
const PAGE_ENTRIES = 1 << PAGE_BITS
const PAGE_MASK = PAGE_ENTRIES - 1

/**
 * A growing column of unsigned 32-bit numbers, in pages of 64 KiB. It grows by a page at a time and never copies:
 * one doubling of a flat array of ten million entries would stop the thread for longer than a request may take.
 */
export class PagedTable {
  readonly #pages: Uint32Array[] = []

  /** Makes entries 0..count-1 exist. New ones are 0. */
  ensure(count: number): void {
    while (this.#pages.length * PAGE_ENTRIES < count) this.#pages.push(new Uint32Array(PAGE_ENTRIES))
  }

  get(index: number): number {
    return this.#pages[index >>> PAGE_BITS]![index & PAGE_MASK]!
  }

  set(index: number, value: number): void {
    this.#pages[index >>> PAGE_BITS]![index & PAGE_MASK] = value
  }
}
