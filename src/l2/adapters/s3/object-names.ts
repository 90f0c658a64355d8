import { HASH_BYTES } from '../../../core/hash-chain.ts'
import { type KeyWords, keyWords } from '../../key-words.ts'

// Names in the bucket. A listing alone brings the index back: an object's name has its parent, too.
//
//   PREFIX spaces/DIGEST.json                    what the digest stands for: model, salt, ranks, rank, bytes, layout
//   PREFIX objects/DIGEST/HASH.PARENT            one shard: 64 hex digits each
//   PREFIX quarantine/DIGEST/HASH.MILLISECONDS   a record that was found corrupt, kept for a look

/** Parts of an object's name. */
export interface ObjectName {
  readonly digest: string
  readonly hash: KeyWords
  readonly parent: KeyWords
}

const OBJECT = /^([0-9a-f]{32})\/([0-9a-f]{64})\.([0-9a-f]{64})$/
const SPACE = /^([0-9a-f]{32})\.json$/

/** Names below one prefix. */
export class ObjectNames {
  readonly objects: string
  readonly spaces: string
  readonly quarantine: string

  constructor(prefix: string) {
    this.objects = `${prefix}objects/`
    this.spaces = `${prefix}spaces/`
    this.quarantine = `${prefix}quarantine/`
  }

  /** @param hash 8 words. @param parent 8 words. */
  objectOf(digest: string, hash: KeyWords, parent: KeyWords): string {
    return `${this.objects}${digest}/${hexOf(hash)}.${hexOf(parent)}`
  }

  spaceOf(digest: string): string {
    return `${this.spaces}${digest}.json`
  }

  quarantineOf(digest: string, hash: KeyWords, wallMs: number): string {
    return `${this.quarantine}${digest}/${hexOf(hash)}.${wallMs}`
  }

  /** Undefined for a name that is none of an object. */
  parseObject(name: string): ObjectName | undefined {
    const found = name.startsWith(this.objects) ? OBJECT.exec(name.slice(this.objects.length)) : null
    if (found === null) return undefined
    return { digest: found[1]!, hash: wordsOf(found[2]!), parent: wordsOf(found[3]!) }
  }

  /** The digest of a name of a space; undefined for another name. */
  parseSpace(name: string): string | undefined {
    return name.startsWith(this.spaces) ? SPACE.exec(name.slice(this.spaces.length))?.[1] : undefined
  }
}

function hexOf(words: KeyWords): string {
  return Buffer.from(words.buffer, words.byteOffset, HASH_BYTES).toString('hex')
}

function wordsOf(hex: string): KeyWords {
  return keyWords(Uint8Array.from(Buffer.from(hex, 'hex')))
}
