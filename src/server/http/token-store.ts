import { timingSafeEqual } from 'node:crypto'
import { statSync } from 'node:fs'
import type { Clock } from '../../core/clock.ts'
import { CacheError } from '../../core/errors.ts'
import type { AuthOptions } from '../options.ts'
import { WatchedFile } from '../watched-file.ts'
import { parseGivenTokens } from './given-tokens.ts'
import { hashToken, readTokenFile, type Scope, type TokenRecord, tokenFilePath } from './token-file.ts'

/** Who a bearer token stands for. */
export interface TokenHolder {
  readonly id: string
  readonly name: string
  readonly scopes: readonly Scope[]
}

export type TokenCheck =
  | { readonly status: 'valid'; readonly holder: TokenHolder }
  | { readonly status: 'unknown' | 'expired' | 'revoked' }

export interface TokenStoreParts {
  readonly dataDir: string
  readonly clock: Clock
  /** Told when a file cannot be read any more: the tokens read last stay in force. */
  readonly onError: (error: unknown) => void
  /** Tokens of the configuration. */
  readonly given?: AuthOptions
  /** Told when the file of the configuration was read again: ids of tokens that came and went. */
  readonly onReload?: (change: { readonly added: readonly string[]; readonly removed: readonly string[] }) => void
}

/** How long the tokens are used before the file is looked at again. An unknown token is looked up at once. */
const FRESH_MS = 1000

/**
 * The tokens of a running engine: those of the data directory, of the configuration, and of the file that it names. Both
 * files are read again when they change.
 */
export class TokenStore {
  readonly #path: string
  readonly #clock: Clock
  readonly #onError: (error: unknown) => void
  readonly #onReload: TokenStoreParts['onReload']
  readonly #fixed: readonly TokenRecord[]
  readonly #file: WatchedFile<readonly TokenRecord[]> | null
  #fromFile: readonly TokenRecord[] = []
  #records: readonly { readonly record: TokenRecord; readonly hash: Buffer }[] = []
  #version = ''
  #lookedMs: number

  /** @throws CacheError CONFIG_INVALID when there is a file that cannot be read. */
  constructor(parts: TokenStoreParts) {
    this.#path = tokenFilePath(parts.dataDir)
    this.#clock = parts.clock
    this.#onError = parts.onError
    this.#onReload = parts.onReload
    this.#lookedMs = this.#clock.nowMs()
    this.#fixed = givenTokens(parts.given?.tokens ?? [])
    this.#file = tokenFileOf(parts)
    this.#fromFile = this.#file?.value() ?? []
    this.#read(this.#fileVersion())
  }

  /** Judges a token. Every stored hash is compared in full, so that time tells nothing. */
  check(token: string): TokenCheck {
    this.#refresh()
    const hash = Buffer.from(hashToken(token), 'hex')
    let found = this.#find(hash)
    if (found === undefined && this.#refresh(true)) found = this.#find(hash)
    if (found === undefined) return { status: 'unknown' }
    if (found.revokedAt !== null) return { status: 'revoked' }
    if (found.expiresAt !== null && Date.parse(found.expiresAt) <= this.#clock.wallMs()) return { status: 'expired' }
    return { status: 'valid', holder: { id: found.id, name: found.name, scopes: found.scopes } }
  }

  /** Whether any token that was not revoked, expired or not, names one of these scopes. */
  hasScope(...scopes: readonly Scope[]): boolean {
    this.#refresh()
    return this.#records.some(
      ({ record }) => record.revokedAt === null && scopes.some((scope) => record.scopes.includes(scope)),
    )
  }

  #find(hash: Buffer): TokenRecord | undefined {
    let found: TokenRecord | undefined
    for (const candidate of this.#records) {
      if (timingSafeEqual(candidate.hash, hash)) found = candidate.record
    }
    return found
  }

  /** True when the file had changed and was read. */
  #refresh(isForced = false): boolean {
    const nowMs = this.#clock.nowMs()
    if (!isForced && nowMs - this.#lookedMs < FRESH_MS) return false
    this.#lookedMs = nowMs
    try {
      const version = this.#fileVersion()
      const isReloaded = this.#file?.refresh() === true
      if (version === this.#version && !isReloaded) return false
      if (isReloaded) this.#reload()
      this.#read(version)
      return true
    } catch (error) {
      this.#onError(error)
      return false
    }
  }

  #reload(): void {
    const before = this.#fromFile
    this.#fromFile = this.#file!.value()
    const others = (those: readonly TokenRecord[], than: readonly TokenRecord[]) =>
      those.map(({ id }) => id).filter((id) => !than.some((one) => one.id === id))
    this.#onReload?.({ added: others(this.#fromFile, before), removed: others(before, this.#fromFile) })
  }

  #read(version: string): void {
    const records = [...readTokenFile(this.#path), ...this.#fixed, ...this.#fromFile]
    this.#records = records.map((record) => ({ record, hash: Buffer.from(record.hash, 'hex') }))
    this.#version = version
  }

  // Each write makes a new file, so its inode tells two writes within one tick of the file system's clock apart.
  #fileVersion(): string {
    const facts = statSync(this.#path, { bigint: true, throwIfNoEntry: false })
    return facts === undefined ? 'absent' : `${facts.ino} ${facts.size} ${facts.mtimeNs}`
  }
}

function givenTokens(entries: readonly string[]): TokenRecord[] {
  try {
    return parseGivenTokens(entries)
  } catch (error) {
    const message = `--auth-tokens: ${(error as Error).message}`
    throw new CacheError('CONFIG_INVALID', message, { field: '--auth-tokens' })
  }
}

function tokenFileOf({ given, clock, onError }: TokenStoreParts): WatchedFile<readonly TokenRecord[]> | null {
  if (given === undefined || given.tokenFile === '') return null
  const parse = (text: string) => parseGivenTokens(text.split(/\r?\n/))
  return new WatchedFile({ path: given.tokenFile, flag: '--auth-token-file', clock, parse, onError })
}
