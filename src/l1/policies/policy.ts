/**
 * Chooses what leaves L1. It sees logical chunks by record number, and none of their bytes.
 * The holds of `../holds.ts` go in front of it, so a policy hears of a chunk only when its state changes:
 *
 *          admit                 free                      hold
 *   ------------------> held -----------> free --------------------------> held
 *   (of a new chunk,                       | touch: again asked for
 *    which is being written)               | ripen: its last child left
 *                                          | forget: evicted or removed -------> gone
 *                        held -- forget: removed while leased -----------------> gone
 *
 * A chunk with a held child is held; while chunks are freed, a child is freed before its parent. Touches of a
 * chain come tail first. `victim` must answer a free chunk without children, and NO_CHUNK only when there is none.
 * Every method is O(1), `victim` amortised, and allocates nothing.
 */
export interface EvictionPolicy {
  readonly name: string
  /** A new chunk, held. `words[record..record+8)` is its hash, of which policies with a history keep a trace. */
  admit(id: number): void
  hold(id: number): void
  free(id: number): void
  /** A client asked for it again; held or free. Holding and freeing by themselves are no access. */
  touch(id: number): void
  /** A free chunk has no child any more. */
  ripen(id: number): void
  /** @param isEvicted it left for room, not by a removal. */
  forget(id: number, isEvicted: boolean): void
  /** The chunk to evict next. It stays until `forget` or `hold`. */
  victim(): number
  /**
   * The free chunk that comes after `id` in the order of eviction, as far as that is known; NO_CHUNK asks for the first,
   * and answers that there is no more. A walk begins there or behind a victim; until it ends nothing may change. Absent
   * where the order is made by asking.
   */
  next?(id: number): number
  /** `next` names every free chunk, parents behind their children. */
  readonly namesAll?: boolean
  /** Bytes of arrays beyond the chunk table. */
  readonly bytes: number
  /** Whole-structure check for tests. */
  verify(): void
}
