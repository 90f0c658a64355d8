import { CacheError } from '../core/errors.ts'
import { HASH_BYTES } from '../core/hash-chain.ts'
import type { KeyBatch, ObjectPage } from './adapter.ts'
import { NO_NODE, type ObjectIndex } from './object-index.ts'
import type { SpaceEntry, SpaceTable } from './space-table.ts'

/**
 * A page of the objects that an index holds, by number of their nodes. The cursor is the last number of the page:
 * an object keeps its number while it is held, so that a page costs nothing that the pages before it did.
 *
 * @throws CacheError BAD_REQUEST for a cursor that is no number.
 */
export function objectPage(index: ObjectIndex, spaces: SpaceTable, cursor: string, countMax: number): ObjectPage {
  if (!/^\d{0,10}$/.test(cursor)) throw new CacheError('BAD_REQUEST', 'the cursor is none of this adapter')
  const bySpace = new Map<number, number[]>()
  let last = Number(cursor)
  let count = 0
  let node = index.nextHeld(last)
  for (; node !== NO_NODE && count < countMax; node = index.nextHeld(node)) {
    const nodes = bySpace.get(index.spaceOf(node))
    if (nodes === undefined) bySpace.set(index.spaceOf(node), [node])
    else nodes.push(node)
    last = node
    count += 1
  }
  const batches = Array.from(bySpace, ([space, nodes]) => batchOf(index, spaces.byId(space), nodes))
  return { batches, cursor: node === NO_NODE ? null : String(last) }
}

function batchOf(index: ObjectIndex, { space }: SpaceEntry, nodes: readonly number[]): KeyBatch {
  const hashes = new Uint8Array(nodes.length * HASH_BYTES)
  const parents = new Uint8Array(nodes.length * HASH_BYTES)
  for (const [key, node] of nodes.entries()) {
    hashes.set(bytesOf(index.hashOf(node)), key * HASH_BYTES)
    parents.set(bytesOf(index.parentHashOf(node)), key * HASH_BYTES)
  }
  return { space, count: nodes.length, hashes, parents }
}

function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, HASH_BYTES)
}
