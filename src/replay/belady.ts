import type { PrefixTrace } from './prefix-nodes.ts'
import { type ReferenceResult, referenceResult } from './reference-lru.ts'

const NEVER = 0xffffffff

/**
 * Belady's MIN with prefix semantics: the most hits that any cache of this size can have on this trace.
 * For each request: count the leading hits, insert every block, then evict those needed furthest in the future
 * down to capacity. Of two blocks needed by the same request the deeper one goes first. A parent is needed no later
 * than its children, so that victims are leaves, and what is resident is always a set of whole prefixes.
 *
 * @param capacityBlocks Infinity gives the hit ratio of a cache that never evicts.
 */
export function belady(trace: PrefixTrace, capacityBlocks: number): ReferenceResult {
  const nextUse = nextUses(trace)
  const needed = new Uint32Array(trace.distinct).fill(NEVER) // next use of a resident node; NEVER = not resident
  const heap = new FurthestHeap()
  let resident = 0
  let blockHits = 0
  for (let request = 0; request < trace.requests; request += 1) {
    const from = trace.firstRef[request]!
    const to = trace.firstRef[request + 1]!
    let isLeading = true
    for (let ref = from; ref < to; ref += 1) {
      const node = trace.nodes[ref]!
      const isResident = needed[node] !== NEVER
      isLeading &&= isResident
      if (isLeading) blockHits += 1
      if (isResident) resident -= 1
      // A block that is never used again is evicted at once: keeping it cannot make a hit.
      const next = nextUse[ref]!
      needed[node] = next
      if (next === NEVER) continue
      resident += 1
      heap.push(next, ref - from, node)
    }
    while (resident > capacityBlocks) {
      const node = heap.popNode(needed)
      needed[node] = NEVER
      resident -= 1
    }
  }
  return referenceResult(trace, blockHits)
}

/** For each reference: the next request that refers to the same node, or NEVER. */
function nextUses(trace: PrefixTrace): Uint32Array {
  const next = new Uint32Array(trace.nodes.length)
  const seen = new Uint32Array(trace.distinct).fill(NEVER)
  for (let request = trace.requests - 1; request >= 0; request -= 1) {
    for (let ref = trace.firstRef[request]!; ref < trace.firstRef[request + 1]!; ref += 1) {
      const node = trace.nodes[ref]!
      next[ref] = seen[node]!
      seen[node] = request
    }
  }
  return next
}

/** Binary max-heap by (next use, depth). Entries of nodes used meanwhile are stale and skipped by `popNode`. */
class FurthestHeap {
  readonly #use: number[] = []
  readonly #depth: number[] = []
  readonly #node: number[] = []

  push(use: number, depth: number, node: number): void {
    let hole = this.#use.length
    while (hole > 0) {
      const parent = (hole - 1) >> 1
      if (!isFurther(use, depth, this.#use[parent]!, this.#depth[parent]!)) break
      this.#move(parent, hole)
      hole = parent
    }
    this.#put(hole, use, depth, node)
  }

  /** Takes out the node needed last of all, given each node's true next use. */
  popNode(needed: Uint32Array): number {
    for (;;) {
      const use = this.#use[0]!
      const node = this.#node[0]!
      this.#removeTop()
      if (needed[node] === use) return node
    }
  }

  #removeTop(): void {
    const use = this.#use.pop()!
    const depth = this.#depth.pop()!
    const node = this.#node.pop()!
    const length = this.#use.length
    if (length === 0) return
    let hole = 0
    for (let child = 1; child < length; child = 2 * hole + 1) {
      const right = child + 1
      if (right < length && isFurther(this.#use[right]!, this.#depth[right]!, this.#use[child]!, this.#depth[child]!)) {
        child = right
      }
      if (!isFurther(this.#use[child]!, this.#depth[child]!, use, depth)) break
      this.#move(child, hole)
      hole = child
    }
    this.#put(hole, use, depth, node)
  }

  #move(from: number, to: number): void {
    this.#put(to, this.#use[from]!, this.#depth[from]!, this.#node[from]!)
  }

  #put(at: number, use: number, depth: number, node: number): void {
    this.#use[at] = use
    this.#depth[at] = depth
    this.#node[at] = node
  }
}

function isFurther(use: number, depth: number, otherUse: number, otherDepth: number): boolean {
  return use > otherUse || (use === otherUse && depth > otherDepth)
}
