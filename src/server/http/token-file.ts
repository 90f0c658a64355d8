import { createHash, randomBytes, randomUUID } from 'node:crypto'
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, rmSync, statSync, writeSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Clock } from '../../core/clock.ts'
import { CacheError } from '../../core/errors.ts'
import { makeDirectory } from '../../native/make-directory.ts'

/** What a token may do. `admin` includes the others. */
export const SCOPES = ['read', 'inference', 'admin'] as const
export type Scope = (typeof SCOPES)[number]

/** One token as it is kept: the token itself is known only to whom it was given. */
export interface TokenRecord {
  readonly id: string
  /** SHA-256 of the token, in hex. A token has 256 random bits, so nothing slower is needed. */
  readonly hash: string
  readonly scopes: readonly Scope[]
  /** For people: what or whom the token is for. */
  readonly name: string
  /** ISO 8601, UTC. */
  readonly createdAt: string
  readonly expiresAt: string | null
  readonly revokedAt: string | null
}

export interface NewToken {
  readonly scopes: readonly Scope[]
  readonly name?: string
  /** Life in milliseconds; absent = until revoked. */
  readonly ttlMs?: number
}

const TOKEN_PREFIX = 'kvt_'
/** Tokens of one data directory at most, revoked ones included. */
const TOKENS_MAX = 10_000
/** A lock older than this was left by a process that died. */
const LOCK_STALE_MS = 10_000
const LOCK_TRIES = 100
const LOCK_WAIT_MS = 20

export function tokenFilePath(dataDir: string): string {
  return join(dataDir, 'tokens.json')
}

/** SHA-256 of a token, in hex. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex')
}

/**
 * Adds a token. A running engine sees it at once.
 *
 * @returns the token, shown this once, and its id.
 * @throws CacheError DATA_DIR_UNWRITABLE, CONFIG_INVALID
 */
export function createToken(dataDir: string, wanted: NewToken, clock: Clock): { token: string; record: TokenRecord } {
  if (wanted.scopes.length === 0) {
    throw new CacheError('CONFIG_INVALID', `--scope is missing: write one of ${SCOPES.join(', ')}`, {
      field: '--scope',
    })
  }
  const token = `${TOKEN_PREFIX}${randomBytes(32).toString('base64url')}`
  const nowMs = clock.wallMs()
  const record: TokenRecord = {
    id: `tok_${randomUUID().replaceAll('-', '').slice(0, 16)}`,
    hash: hashToken(token),
    scopes: SCOPES.filter((scope) => wanted.scopes.includes(scope)),
    name: (wanted.name ?? '').slice(0, 128),
    createdAt: new Date(nowMs).toISOString(),
    expiresAt: wanted.ttlMs === undefined ? null : new Date(nowMs + wanted.ttlMs).toISOString(),
    revokedAt: null,
  }
  change(dataDir, (records) => {
    if (records.length < TOKENS_MAX) return [...records, record]
    throw new CacheError('CONFIG_INVALID', `${tokenFilePath(dataDir)} holds ${TOKENS_MAX} tokens, the limit`)
  })
  return { token, record }
}

/** Every token ever created, oldest first, revoked and expired ones included. */
export function listTokens(dataDir: string): TokenRecord[] {
  return readTokenFile(tokenFilePath(dataDir))
}

/** Ends a token. A running engine refuses it within a second. @returns the record; undefined when there is none. */
export function revokeToken(dataDir: string, id: string, clock: Clock): TokenRecord | undefined {
  let revoked: TokenRecord | undefined
  change(dataDir, (records) =>
    records.map((record) => {
      if (record.id !== id) return record
      revoked = { ...record, revokedAt: record.revokedAt ?? new Date(clock.wallMs()).toISOString() }
      return revoked
    }),
  )
  return revoked
}

/** Records of a token file; none when there is no file. @throws CacheError CONFIG_INVALID when it cannot be read. */
export function readTokenFile(path: string): TokenRecord[] {
  try {
    const contents: unknown = JSON.parse(readFileSync(path, 'utf8'))
    if (!isTokenFile(contents)) throw new Error('it is not a list of tokens')
    return contents.tokens
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    const reason = error instanceof Error ? error.message : String(error)
    const message = `${path} cannot be read: ${reason}; mend it, or remove it and create the tokens again`
    throw new CacheError('CONFIG_INVALID', message, { field: '--data-dir' }, error)
  }
}

function isTokenFile(contents: unknown): contents is { tokens: TokenRecord[] } {
  const tokens = (contents as { tokens?: unknown } | null)?.tokens
  return Array.isArray(tokens) && tokens.every(isRecord)
}

function isRecord(value: unknown): value is TokenRecord {
  const record = value as Partial<Record<keyof TokenRecord, unknown>> | null
  if (typeof record !== 'object' || record === null) return false
  const isTime = (time: unknown): boolean =>
    time === null || (typeof time === 'string' && !Number.isNaN(Date.parse(time)))
  return (
    typeof record.id === 'string' &&
    typeof record.hash === 'string' &&
    /^[0-9a-f]{64}$/.test(record.hash) &&
    Array.isArray(record.scopes) &&
    record.scopes.every((scope) => (SCOPES as readonly unknown[]).includes(scope)) &&
    isTime(record.expiresAt) &&
    isTime(record.revokedAt)
  )
}

// Read, change and replace under a lock, so that two commands at once lose nothing; a reader sees the old file or
// the new one, whole.
function change(dataDir: string, next: (records: TokenRecord[]) => TokenRecord[]): void {
  const path = tokenFilePath(dataDir)
  const lock = `${path}.lock`
  try {
    makeDirectory(dataDir)
    takeLock(lock)
    try {
      replaceFile(path, `${JSON.stringify({ version: 1, tokens: next(readTokenFile(path)) }, null, 2)}\n`)
    } finally {
      rmSync(lock, { force: true })
    }
  } catch (error) {
    if (error instanceof CacheError) throw error
    const reason = (error as NodeJS.ErrnoException).code ?? String(error)
    const message = `${path} cannot be written (${reason}); check --data-dir and its permissions`
    throw new CacheError('DATA_DIR_UNWRITABLE', message, { field: '--data-dir' }, error)
  }
}

function takeLock(path: string): void {
  for (let tried = 0; ; tried += 1) {
    try {
      closeSync(openSync(path, 'wx', 0o600))
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || tried === LOCK_TRIES) throw error
    }
    const ageMs = Date.now() - (statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now())
    if (ageMs > LOCK_STALE_MS) rmSync(path, { force: true })
    else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_WAIT_MS)
  }
}

function replaceFile(path: string, contents: string): void {
  const temporary = `${path}.${process.pid}.tmp`
  const file = openSync(temporary, 'w', 0o600)
  try {
    writeSync(file, contents)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(temporary, path)
  const directory = openSync(dirname(path), 'r')
  fsyncSync(directory)
  closeSync(directory)
}
