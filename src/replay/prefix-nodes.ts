import type { TraceBatch } from './trace-batch.ts'

/** A trace as nodes of its prefix tree, for the reference models. */
export interface PrefixTrace {
  readonly requests: number
  /** Node of each block reference, request after request, root first. 0 .. distinct-1. */
  readonly nodes: Uint32Array
  /** References of request r: firstRef[r] .. firstRef[r + 1]. */
  readonly firstRef: Uint32Array
  /** How many prefixes there are. */
  readonly distinct: number
}

/** Numbers the distinct prefixes of a trace: two references share a node when their whole prefixes are equal. */
export function prefixTraceOf(trace: TraceBatch): PrefixTrace {
  const refs = trace.idCount
  const nodes = new Uint32Array(refs)
  const table = new EdgeTable(refs)
  for (let request = 0; request < trace.count; request += 1) {
    let parent = NO_NODE
    for (let ref = trace.firstId[request]!; ref < trace.firstId[request + 1]!; ref += 1) {
      parent = table.child(parent, trace.ids[ref]!)
      nodes[ref] = parent
    }
  }
  return {
    requests: trace.count,
    nodes,
    firstRef: trace.firstId.slice(0, trace.count + 1),
    distinct: table.count,
  }
}

/** The parent of a root. */
const NO_NODE = 0xffffffff

/** (parent node, block id) -> node, by open addressing. */
class EdgeTable {
  count = 0
  readonly #mask: number
  readonly #slots: Uint32Array // node + 1; 0 is empty
  readonly #parent: Uint32Array
  readonly #id: Uint32Array

  constructor(capacityNodes: number) {
    const slots = 2 ** Math.ceil(Math.log2(capacityNodes * 2 + 2))
    this.#mask = slots - 1
    this.#slots = new Uint32Array(slots)
    this.#parent = new Uint32Array(capacityNodes)
    this.#id = new Uint32Array(capacityNodes)
  }

  child(parent: number, id: number): number {
    let mixed = Math.imul(parent, 0x9e3779b1) ^ Math.imul(id, 0x85ebca6b)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0xc2b2ae35)
    let slot = (mixed ^ (mixed >>> 13)) & this.#mask
    for (let entry = this.#slots[slot]!; entry !== 0; entry = this.#slots[slot]!) {
      if (this.#parent[entry - 1] === parent && this.#id[entry - 1] === id) return entry - 1
      slot = (slot + 1) & this.#mask
    }
    const node = this.count
    this.count += 1
    this.#slots[slot] = node + 1
    this.#parent[node] = parent
    this.#id[node] = id
    return node
  }
}
