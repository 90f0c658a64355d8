import { HASH_WORDS } from '../core/hash-chain.ts'
import type { KeyWords } from './key-words.ts'
import { NO_NODE, type ObjectIndex } from './object-index.ts'

/**
 * Whether object `key`, which is not held, would be among its own ancestors: then it has no place in the index. Hashes of
 * prompts never make it so; clients that choose hashes and parents themselves can.
 */
export function isOwnAncestor(
  index: ObjectIndex,
  space: number,
  hashes: KeyWords,
  parents: KeyWords,
  key: number,
): boolean {
  const node = index.find(space, hashes, key)
  // Nobody has named it as a parent: only itself could.
  if (node === NO_NODE) return isOwnParent(hashes, parents, key)
  let above = index.find(space, parents, key)
  while (above !== node && !index.isAbsent(above)) above = index.find(space, index.parentHashOf(above), 0)
  return above === node
}

function isOwnParent(hashes: KeyWords, parents: KeyWords, key: number): boolean {
  for (let word = key * HASH_WORDS; word < (key + 1) * HASH_WORDS; word += 1) {
    if (hashes[word] !== parents[word]) return false
  }
  return true
}
