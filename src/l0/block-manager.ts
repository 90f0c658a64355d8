import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import type { CounterTable } from '../core/counters.ts'
import type { HashChain } from '../core/hash-chain.ts'
import type { EventSink } from '../events/bus.ts'
import type { L0_FIELDS, L0_TENANT_FIELDS } from '../events/counters.ts'
import { BlockLifecycle } from './block-lifecycle.ts'
import { BlockPool, NO_BLOCK } from './block-pool.ts'
import { BlockSpaces, type L0Space } from './block-spaces.ts'
import type { BlockTable } from './block-table.ts'
import type { BlockLists, Direction } from './device.ts'
import type { L0Options } from './options.ts'
import { RunIndex } from './run-index.ts'
import { NO_RUN, RUN_FILLING, RUN_FREE, RUN_PRIVATE, RUN_SHARED, RunTable } from './run-table.ts'
import { verifyBlocks } from './verify-blocks.ts'

// The life of a run (the blocks of one chunk):
//
//             allocate            publish                    last hold ends              evict
//    RUN_FREE --------> RUN_FILLING -------> RUN_SHARED, held <-----------> RUN_SHARED, listed ----> RUN_FREE
//                        |         \                 \          acquire            | remove
//       last hold ends   |          \ a twin is       \ remove                     v
//    RUN_FREE <----------/           \ shared          \                        RUN_FREE
//        ^------------------ RUN_PRIVATE <--------------/
//
// A hold is a reference of a request's table, or a transfer from its queueing to its fence. Loads write runs that are
// filling, stores read runs that are readable, and nothing is listed or freed while held: so no block is ever read and
// written at once, and none is given to another chunk before the fence of its last transfer.
//
// One pool serves spaces of different bytes per token: it is cut into blocks of equal bytes, and the chunk of a space
// takes as many as it needs, rounded up. vLLM unifies the page size of a model's layer groups in the same way. Against
// a partition for each space this keeps one recency order over all and moves room to whoever asks, without compaction;
// it costs at most one part-filled block a chunk, and nothing for the model that sets the block size. The blocks of a
// chunk need not be neighbours.

export interface BlockManagerParts {
  readonly clock: Clock
  readonly events: EventSink
  readonly tenants: CounterTable<(typeof L0_TENANT_FIELDS)[number]>
  readonly totals: CounterTable<(typeof L0_FIELDS)[number]>
}

/**
 * The blocks of the L0 pool: allocation, reference counts, reuse of prefixes by content, and eviction of unheld chunks,
 * least recently released first and within a request tail first. Identity is the chunk's: a hit is a whole chunk whose
 * every block is valid. Nothing is allocated for a block or chunk after the first space has registered, but for tables
 * that grow.
 */
export class BlockManager {
  readonly spaces = new BlockSpaces()
  readonly #options: L0Options
  readonly #parts: BlockManagerParts
  readonly #lifecycle: BlockLifecycle
  readonly #usedColumn: number
  readonly #freeColumn: number
  #blockBytes = 0
  #listedBlocks = 0
  #pool = new BlockPool(0)
  #lists: BlockLists = { next: this.#pool.nextBlocks, blockBytes: 0 }
  #runs = new RunTable(0)
  #index = new RunIndex(this.#runs)

  constructor(options: L0Options, parts: BlockManagerParts) {
    this.#options = options
    this.#parts = parts
    this.#lifecycle = new BlockLifecycle(parts.tenants, parts.events, options.lifecycleSampleEvery)
    this.#usedColumn = parts.totals.column('usedBlocks')
    this.#freeColumn = parts.totals.column('freeBlocks')
  }

  /** Bytes of one block; 0 until a space has registered. */
  get blockBytes(): number {
    return this.#blockBytes
  }

  /** The lists of the runs, for a device that follows them itself. Another object once a space has registered. */
  get lists(): BlockLists {
    return this.#lists
  }

  get capacityBlocks(): number {
    return this.#pool.capacity
  }

  /** Blocks that hold nothing. */
  get freeBlocks(): number {
    return this.#pool.free
  }

  /** Blocks that hold chunks nobody uses: reusable, and free for the asking. */
  get cachedBlocks(): number {
    return this.#listedBlocks
  }

  /** Bytes of a block once a space of this shape has registered: the first one cuts the pool into blocks. */
  blockBytesFor({ chunkBytes, chunkTokens }: Pick<L0Space, 'chunkBytes' | 'chunkTokens'>): number {
    if (this.#blockBytes > 0) return this.#blockBytes
    const { capacityBytes, blockBytes, blockTokens, blocksMax } = this.#options
    const wantedBytes = blockBytes > 0 ? blockBytes : (blockTokens * chunkBytes) / chunkTokens
    return Math.max(Math.ceil(wantedBytes), Math.ceil(capacityBytes / blocksMax))
  }

  /** Makes a key space known. Idempotent. */
  registerSpace(space: number, spec: L0Space): void {
    this.spaces.register(space, spec)
    if (this.#blockBytes > 0) return
    this.#blockBytes = this.blockBytesFor(spec)
    this.#pool = new BlockPool(Math.floor(this.#options.capacityBytes / this.#blockBytes))
    this.#lists = { next: this.#pool.nextBlocks, blockBytes: this.#blockBytes }
    this.#runs = new RunTable(this.#pool.capacity)
    this.#index = new RunIndex(this.#runs)
    this.#parts.totals.set(0, 'capacityBlocks', this.#pool.capacity)
    this.#countUse()
  }

  /** Blocks that a chunk of this space takes. */
  blocksPerChunk(space: number): number {
    return Math.ceil(this.spaces.chunkBytes(space) / this.#blockBytes)
  }

  /** Chunks of the leading run of [from, to) that are all on the device. Touches nothing. */
  residentRun(space: number, chain: HashChain, from: number, to: number): number {
    if (!this.spaces.has(space)) return 0
    let at = from
    while (at < to && this.#index.find(space, chain, at) !== NO_RUN) at += 1
    return at - from
  }

  /**
   * Takes references on chunks [from, to), which go to the end of the table; each block counts as reused.
   * `from` is the table's end, unless the table is empty.
   *
   * @returns false when one of them is not resident; nothing has changed then.
   */
  acquire(table: BlockTable, chain: HashChain, from: number, to: number): boolean {
    if (!this.spaces.has(table.space)) return false
    table.prepare(from, to)
    for (let at = from; at < to; at += 1) {
      const run = this.#index.find(table.space, chain, at)
      if (run === NO_RUN) return false
      table.runs[at - table.from] = run
    }
    const nowMs = this.#parts.clock.nowMs()
    for (let at = from; at < to; at += 1) this.#reuse(table.runs[at - table.from]!, nowMs)
    table.count += to - from
    return true
  }

  /**
   * Puts chunks [from, to) at the end of the table: a reference on those that are resident, and new blocks for the
   * others, evicting unheld chunks for room. New ones are to be filled (`needsFill`) and then published.
   *
   * @returns false when there is not enough room; nothing has changed then but the failure count.
   */
  allocate(table: BlockTable, chain: HashChain, from: number, to: number): boolean {
    const { space } = table
    const blocks = this.blocksPerChunk(space)
    table.prepare(from, to)
    let wanted = 0
    let listedHits = 0
    for (let at = from; at < to; at += 1) {
      const run = this.#index.find(space, chain, at)
      table.runs[at - table.from] = run
      if (run === NO_RUN) wanted += blocks
      else if (!this.#runs.isHeld(run)) listedHits += blocks
    }
    if (!this.#hasRoom(wanted + listedHits)) return this.#refuse(space)
    const nowMs = this.#parts.clock.nowMs()
    for (let at = from; at < to; at += 1) {
      const run = table.runs[at - table.from]!
      if (run !== NO_RUN) this.#reuse(run, nowMs)
    }
    for (let at = from; at < to; at += 1) {
      if (table.runs[at - table.from] !== NO_RUN) continue
      const run = this.#create(space, blocks, nowMs)
      this.#runs.setHash(run, chain, at)
      this.#runs.shareable[run] = 1
      table.runs[at - table.from] = run
    }
    table.count += to - from
    this.#countUse()
    return true
  }

  /**
   * Gives the table blocks for `tokens` tokens past its last whole chunk. They have no identity: they are freed with
   * the table, never reused. A table has at most one tail.
   *
   * @returns false when there is not enough room; nothing has changed then but the failure count.
   */
  allocateTail(table: BlockTable, tokens: number): boolean {
    assert(table.tail === NO_RUN && tokens > 0, 'second or empty tail')
    const { chunkBytes, chunkTokens } = this.spaces.of(table.space)
    const blocks = Math.ceil((tokens * chunkBytes) / chunkTokens / this.#blockBytes)
    if (!this.#hasRoom(blocks)) return this.#refuse(table.space)
    const run = this.#create(table.space, blocks, this.#parts.clock.nowMs())
    this.#runs.shareable[run] = 0
    table.tail = run
    this.#countUse()
    return true
  }

  /** Whether the caller has yet to compute or load chunk `index` of its table. */
  needsFill(table: BlockTable, index: number): boolean {
    return this.#runs.state[table.runOf(index)] === RUN_FILLING
  }

  /**
   * Marks chunks [from, to) of the table valid: their bytes are there and stay. They can be reused from now on, unless
   * another request published the same chunk first; then these serve their holder only. Chunks valid already stay so.
   *
   * @returns chunks that became reusable.
   */
  publish(table: BlockTable, from: number, to: number): number {
    const runs = this.#runs
    let shared = 0
    for (let at = from; at < to; at += 1) {
      const run = table.runOf(at)
      if (runs.state[run] !== RUN_FILLING) continue
      assert(runs.loads[run] === 0, 'published while a load is in flight')
      const isShared = runs.shareable[run] === 1 && this.#index.findTwin(run) === NO_RUN
      runs.state[run] = isShared ? RUN_SHARED : RUN_PRIVATE
      if (!isShared) continue
      this.#index.insert(run)
      shared += 1
    }
    return shared
  }

  /** Gives up all that the table holds and empties it. What was never published is freed. Harmless when empty. */
  release(table: BlockTable): void {
    if (table.isEmpty) return
    if (table.tail !== NO_RUN) this.#dereference(table.tail)
    // Tail first: the head becomes the most recent, so that eviction takes a prompt from its end.
    for (let i = table.count - 1; i >= 0; i -= 1) this.#dereference(table.runs[i]!)
    table.clear()
    this.#countUse()
  }

  /** Takes a hold for a transfer of the run, from its queueing on. Loads go to filling runs, stores from readable ones. */
  holdForTransfer(run: number, direction: Direction): void {
    const runs = this.#runs
    assert(runs.isHeld(run), 'transfer of a run that nobody holds')
    assert((runs.state[run] === RUN_FILLING) === (direction === 'load'), 'transfer in the wrong direction')
    const holds = direction === 'store' ? runs.stores : runs.loads
    holds[run] = holds[run]! + 1
  }

  /** Ends the hold of a transfer: its fence has settled, well or not. */
  settleTransfer(run: number, direction: Direction): void {
    const holds = direction === 'store' ? this.#runs.stores : this.#runs.loads
    assert(holds[run]! > 0, 'transfer settled twice')
    holds[run] = holds[run]! - 1
    this.#dispose(run)
    this.#countUse()
  }

  firstBlock(run: number): number {
    return this.#runs.firstBlock[run]!
  }

  /** Block after this one in its run, or NO_BLOCK. */
  nextBlock(block: number): number {
    return this.#pool.next(block)
  }

  /** Writes the block numbers of the whole table, tail included, in order. @returns how many. */
  blocksOf(table: BlockTable, out: Int32Array): number {
    let count = 0
    for (let i = 0; i <= table.count; i += 1) {
      const run = i < table.count ? table.runs[i]! : table.tail
      if (run === NO_RUN) continue
      for (let block = this.firstBlock(run); block !== NO_BLOCK; block = this.#pool.next(block)) {
        out[count] = block
        count += 1
      }
    }
    return count
  }

  /**
   * Forgets the chunks of a space: none is found any more. Unheld ones are freed at once, held ones with their last
   * hold. Neither is an eviction. Walks the whole pool.
   *
   * @returns blocks that became unfindable.
   */
  removeSpace(space: number): number {
    return this.#remove((run) => this.#runs.space[run] === space)
  }

  /** As `removeSpace`, of every space: the device lost its bytes, or everything is to go. */
  clear(): number {
    return this.#remove(() => true)
  }

  /** Checks the whole structure. For tests. @throws AssertionError */
  verify(): void {
    verifyBlocks(this.#pool, this.#runs, this.#index, this.#listedBlocks)
    assert(this.#parts.totals.get(0, 'freeBlocks') === this.#pool.free, 'free blocks are not what the counter says')
  }

  #hasRoom(blocks: number): boolean {
    return blocks <= this.#pool.free + this.#listedBlocks
  }

  #refuse(space: number): false {
    this.#lifecycle.refused(this.spaces.of(space).tenant)
    return false
  }

  /** A filling run of `blocks` blocks with one reference. There must be room. */
  #create(space: number, blocks: number, nowMs: number): number {
    while (this.#pool.free < blocks) this.#evict(this.#runs.oldest(), nowMs)
    const runs = this.#runs
    const run = runs.take()
    runs.space[run] = space
    runs.firstBlock[run] = this.#pool.take(blocks)
    runs.blocks[run] = blocks
    runs.references[run] = 1
    runs.allocatedMs[run] = nowMs
    runs.accessedMs[run] = nowMs
    this.#lifecycle.allocated(this.spaces.of(space).tenant, blocks)
    return run
  }

  #reuse(run: number, nowMs: number): void {
    const runs = this.#runs
    if (!runs.isHeld(run)) this.#unlist(run)
    runs.references[run] = runs.references[run]! + 1
    this.#lifecycle.reused(this.spaces.of(runs.space[run]!).tenant, runs, run, nowMs)
    runs.accessedMs[run] = nowMs
  }

  #evict(run: number, nowMs: number): void {
    assert(run !== NO_RUN, 'nothing left to evict')
    const { tenant } = this.spaces.of(this.#runs.space[run]!)
    this.#lifecycle.evicted(tenant, this.#runs, run, nowMs)
    this.#index.remove(run)
    this.#unlist(run)
    this.#free(run)
  }

  #dereference(run: number): void {
    assert(this.#runs.references[run]! > 0, 'run released twice')
    this.#runs.references[run] = this.#runs.references[run]! - 1
    this.#dispose(run)
  }

  /** Once the last hold has ended: keeps a shared run for reuse, frees any other. */
  #dispose(run: number): void {
    const runs = this.#runs
    if (runs.isHeld(run)) return
    if (runs.state[run] !== RUN_SHARED) {
      this.#free(run)
      return
    }
    runs.list(run)
    this.#listedBlocks += runs.blocks[run]!
  }

  #unlist(run: number): void {
    this.#runs.unlist(run)
    this.#listedBlocks -= this.#runs.blocks[run]!
  }

  #free(run: number): void {
    this.#pool.give(this.#runs.firstBlock[run]!)
    this.#runs.give(run)
  }

  #remove(matches: (run: number) => boolean): number {
    const runs = this.#runs
    let blocks = 0
    for (let run = 0; run < runs.capacity; run += 1) {
      if (runs.state[run] === RUN_FREE || !matches(run)) continue
      runs.shareable[run] = 0
      if (runs.state[run] !== RUN_SHARED) continue
      blocks += runs.blocks[run]!
      this.#index.remove(run)
      runs.state[run] = RUN_PRIVATE
      if (runs.isHeld(run)) continue
      this.#unlist(run)
      this.#free(run)
    }
    this.#countUse()
    return blocks
  }

  #countUse(): void {
    const { capacity, free } = this.#pool
    const { values } = this.#parts.totals
    values[this.#usedColumn] = capacity - free
    values[this.#freeColumn] = free
  }
}
