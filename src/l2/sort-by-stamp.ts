import type { ObjectIndex } from './object-index.ts'

/** Puts the held objects of an index in the order of their stamps, each parent newer than its children. */
export function sortByStamp(index: ObjectIndex): void {
  const nodes = index.held()
  const recencyMs = new Map<number, number>()
  const left = new Map<number, number>()
  for (const node of nodes) {
    recencyMs.set(node, index.stampOf(node))
    const parent = index.parentOf(node)
    left.set(parent, (left.get(parent) ?? 0) + 1)
  }
  const order = nodes.filter((node) => !left.has(node)) // leaves; grows by each parent whose children are done
  for (let at = 0; at < order.length; at += 1) {
    const node = order[at]!
    const parent = index.parentOf(node)
    const ownMs = recencyMs.get(parent)
    if (ownMs === undefined) continue
    recencyMs.set(parent, Math.max(ownMs, recencyMs.get(node)!))
    left.set(parent, left.get(parent)! - 1)
    if (left.get(parent) === 0) order.push(parent)
  }
  order.sort((one, other) => recencyMs.get(one)! - recencyMs.get(other)!) // stable: children stay before parents
  for (const node of order) index.touch(node)
}
