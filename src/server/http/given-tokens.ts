import { hashToken, SCOPES, type Scope, type TokenRecord } from './token-file.ts'

/** A token that somebody else made up has at least this many characters. */
const LENGTH_MIN = 20
const HASH_PREFIX = 'sha256:'

/**
 * Tokens that come with the configuration, one an entry, plain or hashed:
 *
 *   read:a-long-random-text
 *   read+inference:sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 name=board expires=2027-01-01T00:00:00Z
 *
 * @param entries lines of a file, or the items of a list.
 * @throws Error that says which entry is wrong, and repeats nothing of it.
 */
export function parseGivenTokens(entries: readonly string[]): TokenRecord[] {
  const records: TokenRecord[] = []
  for (const [index, entry] of entries.entries()) {
    const text = entry.trim()
    if (text === '' || text.startsWith('#')) continue
    const record = parseEntry(text)
    if (typeof record === 'string') throw new Error(`entry ${index + 1} ${record}`)
    records.push(record)
  }
  return records
}

/** The record, or what is wrong. */
function parseEntry(text: string): TokenRecord | string {
  const [credential = '', ...more] = text.split(/\s+/)
  const colon = credential.indexOf(':')
  if (colon < 0) return 'has no scope: write SCOPE:TOKEN, such as read:...'
  const scopes = credential.slice(0, colon).split('+')
  if (!scopes.every((scope) => (SCOPES as readonly string[]).includes(scope))) {
    return `has an unknown scope: write ${SCOPES.join(', ')}, with + between them`
  }
  const hash = hashOf(credential.slice(colon + 1))
  if (hash === undefined) {
    return `has no token that can be used: ${LENGTH_MIN} or more of A-Z a-z 0-9 . _ ~ + / -, or ${HASH_PREFIX} and 64 hex digits`
  }
  const fields = new Map(more.map((field) => field.split(/=(.*)/s, 2) as [string, string | undefined]))
  if ([...fields.keys()].some((name) => name !== 'name' && name !== 'expires')) {
    return 'has more than name= and expires= after the token'
  }
  const expires = fields.get('expires')
  const expiresMs = expires === undefined ? null : Date.parse(expires)
  if (Number.isNaN(expiresMs)) return 'has an expires= that is no time such as 2027-01-01T00:00:00Z'
  return {
    id: `key_${hash.slice(0, 16)}`,
    hash,
    scopes: scopes as Scope[],
    name: (fields.get('name') ?? '').slice(0, 128),
    createdAt: '',
    expiresAt: expiresMs === null ? null : new Date(expiresMs).toISOString(),
    revokedAt: null,
  }
}

function hashOf(token: string): string | undefined {
  if (token.startsWith(HASH_PREFIX)) {
    const hex = token.slice(HASH_PREFIX.length).toLowerCase()
    return /^[0-9a-f]{64}$/.test(hex) ? hex : undefined
  }
  return token.length >= LENGTH_MIN && /^[\w.~+/-]+=*$/.test(token) ? hashToken(token) : undefined
}
