import type { PrefixTrace } from './prefix-nodes.ts'

/** Hits of a reference model over a whole trace. */
export interface ReferenceResult {
  readonly blockRefs: number
  readonly blockHits: number
  /** 0..1, and 0 for an empty trace. */
  readonly hitRatio: number
}

/**
 * Exact LRU over blocks, with prefix semantics: a block hits only if all earlier ones of its request hit.
 * For each request: count the leading hits, insert or touch every block, then evict the oldest down to capacity.
 *
 * @param touch `tail-first`: the head of a prompt is its newest block, so leaves go first. `head-first` is naive LRU.
 */
export function referenceLru(
  trace: PrefixTrace,
  capacityBlocks: number,
  touch: 'tail-first' | 'head-first' = 'tail-first',
): ReferenceResult {
  const resident = new Map<number, true>() // oldest first
  let blockHits = 0
  for (let request = 0; request < trace.requests; request += 1) {
    const from = trace.firstRef[request]!
    const to = trace.firstRef[request + 1]!
    let ref = from
    while (ref < to && resident.has(trace.nodes[ref]!)) ref += 1
    blockHits += ref - from
    for (let step = 0; step < to - from; step += 1) {
      const node = trace.nodes[touch === 'tail-first' ? to - 1 - step : from + step]!
      resident.delete(node)
      resident.set(node, true)
    }
    evictOldest(resident, capacityBlocks)
  }
  return referenceResult(trace, blockHits)
}

export function referenceResult(trace: PrefixTrace, blockHits: number): ReferenceResult {
  const blockRefs = trace.firstRef[trace.requests] ?? 0
  return { blockRefs, blockHits, hitRatio: blockRefs === 0 ? 0 : blockHits / blockRefs }
}

/** One iterator for the whole batch: a fresh `keys().next()` a victim walks over all deleted entries again. */
function evictOldest(resident: Map<number, true>, capacityBlocks: number): void {
  if (resident.size <= capacityBlocks) return
  for (const node of resident.keys()) {
    resident.delete(node)
    if (resident.size <= capacityBlocks) return
  }
}
