import { HASH_BYTES } from '../../../core/hash-chain.ts'
import type { KeyBatch } from '../../adapter.ts'
import { type KeyWords, keyWords } from '../../key-words.ts'

// Names of objects under a prefix:
//
//   <prefix>o:<digest of the space, 32 hex digits>:{<hash>}:<hash of the parent>      hashes: 43 digits of base64url
//   <prefix>q:<the same>                                                              a corrupt record, for a while
//
// The parent is part of the name so that one SCAN tells everything that eviction has to know. The hash in braces
// alone decides the Cluster slot: objects spread evenly, and a record and its quarantined copy share a slot.

const OBJECT = /^o:([0-9a-f]{32}):\{([\w-]{43})\}:([\w-]{43})$/

/** What the name of an object says. */
export interface ObjectName {
  readonly digest: string
  /** 8 words each. */
  readonly hash: KeyWords
  readonly parent: KeyWords
}

/** The name of key `index` of a batch. */
export function objectKey(prefix: string, digest: string, batch: KeyBatch, index: number): string {
  return `${prefix}o:${digest}:{${base64(batch.hashes, index)}}:${base64(batch.parents, index)}`
}

/** The name of an object given by the words of its hashes. */
export function objectKeyOf(prefix: string, digest: string, hash: KeyWords, parent: KeyWords): string {
  return `${prefix}o:${digest}:{${base64(bytesOf(hash), 0)}}:${base64(bytesOf(parent), 0)}`
}

/** Where a corrupt object is kept. */
export function quarantineKey(prefix: string, objectName: string): string {
  return `${prefix}q:${objectName.slice(prefix.length + 2)}`
}

/** For SCAN: a prefix holds no character that means something in a pattern. */
export function objectPattern(prefix: string): string {
  return `${prefix}o:*`
}

/** Reads a name; undefined when it is not an object's. */
export function parseObjectKey(prefix: string, key: string): ObjectName | undefined {
  const found = key.startsWith(prefix) ? OBJECT.exec(key.slice(prefix.length)) : null
  return found === null ? undefined : { digest: found[1]!, hash: wordsOf(found[2]!), parent: wordsOf(found[3]!) }
}

function base64(bytes: Uint8Array, index: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + index * HASH_BYTES, HASH_BYTES).toString('base64url')
}

function bytesOf(words: KeyWords): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, HASH_BYTES)
}

function wordsOf(text: string): KeyWords {
  return keyWords(Uint8Array.from(Buffer.from(text, 'base64url')))
}
