import { assert } from '../core/assert.ts'
import { type BlockPool, NO_BLOCK } from './block-pool.ts'
import type { RunIndex } from './run-index.ts'
import { RUN_FILLING, RUN_FREE, RUN_SHARED, type RunTable } from './run-table.ts'

/** Checks that every block is in exactly one place, and that state, holds, recency list and index agree. For tests. */
export function verifyBlocks(pool: BlockPool, runs: RunTable, index: RunIndex, listedBlocks: number): void {
  const seen = new Uint8Array(pool.capacity)
  pool.verify(seen)
  const listed = verifyList(runs)
  let shared = 0
  let listedSum = 0
  for (let run = 0; run < runs.capacity; run += 1) {
    const isListed = listed[run] === 1
    if (runs.state[run] === RUN_FREE) {
      assert(!isListed && !runs.isHeld(run), 'a free run is listed or held')
      continue
    }
    let blocks = 0
    for (let block = runs.firstBlock[run]!; block !== NO_BLOCK; block = pool.next(block)) {
      assert(seen[block] === 0, 'a block is in two places')
      seen[block] = 1
      blocks += 1
    }
    assert(blocks === runs.blocks[run], 'blocks of a run miscounted')
    const isShared = runs.state[run] === RUN_SHARED
    assert(isListed === (isShared && !runs.isHeld(run)), 'the recency list is not the unheld shared runs')
    assert(isShared || runs.isHeld(run), 'a run that nobody can reach')
    assert(runs.loads[run] === 0 || runs.state[run] === RUN_FILLING, 'a load into a readable run')
    assert(runs.stores[run] === 0 || runs.state[run] !== RUN_FILLING, 'a store from a run that is not readable')
    assert(!isShared || index.findTwin(run) === run, 'a shared run is not found by its hash')
    if (isShared) shared += 1
    if (isListed) listedSum += blocks
  }
  assert(
    seen.every((mark) => mark === 1),
    'a block is lost',
  )
  assert(shared === index.count, 'the index holds a run that is not shared')
  assert(listedSum === listedBlocks, 'listed blocks miscounted')
}

function verifyList(runs: RunTable): Uint8Array {
  const listed = new Uint8Array(runs.capacity)
  const root = runs.capacity
  let count = 0
  for (let run = runs.newer[root]!; run !== root; run = runs.newer[run]!) {
    assert(listed[run] === 0, 'a run is listed twice')
    assert(runs.older[runs.newer[run]!] === run, 'the recency list is broken')
    listed[run] = 1
    count += 1
  }
  assert(count === runs.listed, 'listed runs miscounted')
  return listed
}
