import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { HASH_BYTES } from '../../src/core/hash-chain.ts'
import { type KeyBatch, type KeySpace, type L2Adapter, OUTCOME_OK } from '../../src/l2/adapter.ts'
import { random } from './random.ts'

/** A signal that never fires. */
export const NEVER = new AbortController().signal

export const SPACE: KeySpace = { model: 'm', salt: '', ranks: 1, rank: 0, shardBytes: 1000, layout: 'layout-1' }

/** The space of `programs/store-objects.ts`: objects large enough to be torn. */
export const CRASH_SPACE: KeySpace = { ...SPACE, model: 'crash', shardBytes: 40_000 }

const BLOCK_BYTES = 65_536

/** Keys [from, to) of the chain named by `seed`: chunk i's parent is chunk i - 1. */
export function chainBatch(space: KeySpace, seed: number, from: number, to: number): KeyBatch {
  const hashes = new Uint8Array((to - from) * HASH_BYTES)
  const parents = new Uint8Array((to - from) * HASH_BYTES)
  for (let at = 0; at < to - from; at += 1) {
    hashes.set(hashOf(seed, from + at), at * HASH_BYTES)
    if (from + at > 0) parents.set(hashOf(seed, from + at - 1), at * HASH_BYTES)
  }
  return { space, count: to - from, hashes, parents }
}

/** The hash of chunk `index` of a chain: any 32 bytes that differ do. */
export function hashOf(seed: number, index: number): Uint8Array {
  return randomBytes(seed * 1_000_003 + index * 7 + 1, HASH_BYTES)
}

/** What chunk `index` of a chain holds. */
export function payloadOf(seed: number, index: number, bytes = SPACE.shardBytes): Uint8Array {
  return randomBytes(seed * 7919 + index * 31 + 5, bytes)
}

export function payloads(seed: number, from: number, to: number, bytes = SPACE.shardBytes): Uint8Array[] {
  return Array.from({ length: to - from }, (_, at) => payloadOf(seed, from + at, bytes))
}

export function blanks(count: number, bytes = SPACE.shardBytes): Uint8Array[] {
  return Array.from({ length: count }, () => new Uint8Array(bytes))
}

/** Long ones repeat a block, each time with its number: random bytes cost more than what is tested. */
function randomBytes(seed: number, count: number): Uint8Array {
  const next = random(seed)
  const block = Uint8Array.from({ length: Math.min(count, BLOCK_BYTES) }, () => next(256))
  if (count <= BLOCK_BYTES) return block
  const bytes = Buffer.alloc(count)
  for (let at = 0; at < count; at += BLOCK_BYTES) {
    bytes.set(block.subarray(0, Math.min(BLOCK_BYTES, count - at)), at)
    if (count - at >= 4) bytes.writeUInt32LE(at, at)
  }
  return bytes
}

/** Stores chunks [from, to) of a chain. @returns outcomes. */
export async function storeChain(adapter: L2Adapter, seed: number, from: number, to: number, space = SPACE) {
  const outcomes = new Uint8Array(to - from)
  const sources = payloads(seed, from, to, space.shardBytes)
  await adapter.store(chainBatch(space, seed, from, to), sources, outcomes, NEVER)
  return [...outcomes]
}

/** Loads chunks [from, to) and fails when an OK one is not what was stored. @returns outcomes. */
export async function loadChain(adapter: L2Adapter, seed: number, from: number, to: number, space = SPACE) {
  const outcomes = new Uint8Array(to - from)
  const targets = blanks(to - from, space.shardBytes)
  await adapter.load(chainBatch(space, seed, from, to), targets, outcomes, NEVER)
  for (const [at, target] of targets.entries()) {
    const isTorn = outcomes[at] === OUTCOME_OK && !Buffer.from(target).equals(payloadOf(seed, from + at, target.length))
    if (isTorn) throw new Error(`chunk ${from + at} of chain ${seed} was served with other bytes`)
  }
  return [...outcomes]
}

export async function lookupChain(adapter: L2Adapter, seed: number, from: number, to: number, space = SPACE) {
  const found = new Uint8Array(to - from)
  await adapter.lookup(chainBatch(space, seed, from, to), found, NEVER)
  return [...found]
}

export interface FoundFile {
  readonly path: string
  readonly bytes: number
  readonly inode: number
}

/** Files below a folder; those that vanish meanwhile are passed over. */
export function filesBelow(folder: string): FoundFile[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .flatMap((entry) => {
      const path = join(entry.parentPath, entry.name)
      const stat = statSync(path, { throwIfNoEntry: false })
      return stat === undefined ? [] : [{ path, bytes: stat.size, inode: stat.ino }]
    })
}

/** Published objects of a filesystem adapter's directory. */
export function objectFiles(directory: string): FoundFile[] {
  return filesBelow(join(directory, 'objects')).filter(({ path }) => /[0-9a-f]{64}$/.test(path))
}

export function bytesOf(files: readonly { readonly bytes: number }[]): number {
  return files.reduce((sum, { bytes }) => sum + bytes, 0)
}

/** A fresh directory, and how to be rid of it. */
export function temporaryDirectory(): { path: string; remove: () => void } {
  const path = mkdtempSync(join(tmpdir(), 'kvtier-l2-'))
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) }
}
