import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { ManualClock } from '../../../../src/core/clock.ts'
import { createToken, listTokens, revokeToken, tokenFilePath } from '../../../../src/server/http/token-file.ts'
import { TokenStore } from '../../../../src/server/http/token-store.ts'

let dataDir: string
let clock: ManualClock
let errors: unknown[]

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'kvtier-tokens-'))
  clock = new ManualClock()
  errors = []
})

afterEach(() => rmSync(dataDir, { recursive: true, force: true }))

function openStore(): TokenStore {
  return new TokenStore({ dataDir, clock, onError: (error) => errors.push(error) })
}

it('gives a token of 256 random bits and keeps only its hash, for the owner alone', () => {
  const { token, record } = createToken(dataDir, { scopes: ['read'], name: 'board' }, clock)
  expect(token).toMatch(/^kvt_[\w-]{43}$/)
  const path = tokenFilePath(dataDir)
  expect(readFileSync(path, 'utf8')).not.toContain(token)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(listTokens(dataDir)).toEqual([record])
  expect(record).toMatchObject({ scopes: ['read'], name: 'board', expiresAt: null, revokedAt: null })
})

it('knows a token that was made after it was opened, at once', () => {
  const store = openStore()
  expect(store.hasScope('read', 'inference', 'admin')).toBe(false)
  const { token, record } = createToken(dataDir, { scopes: ['inference'] }, clock)
  expect(store.check(token)).toEqual({ status: 'valid', holder: { id: record.id, name: '', scopes: ['inference'] } })
})

it('knows nothing of tokens that look alike', () => {
  const store = openStore()
  const { token } = createToken(dataDir, { scopes: ['admin'] }, clock)
  for (const other of ['', token.slice(0, -1), `${token}x`, token.toUpperCase()]) {
    expect(store.check(other)).toEqual({ status: 'unknown' })
  }
})

it('ends a token at its expiry', () => {
  const { token } = createToken(dataDir, { scopes: ['read'], ttlMs: 5000 }, clock)
  const store = openStore()
  clock.advance(4999)
  expect(store.check(token).status).toBe('valid')
  clock.advance(1)
  expect(store.check(token)).toEqual({ status: 'expired' })
  expect(store.hasScope('read')).toBe(true) // an expired token opens nothing
})

it('ends a token by its id, once', () => {
  const { token, record } = createToken(dataDir, { scopes: ['read'] }, clock)
  const store = openStore()
  expect(store.check(token).status).toBe('valid')
  const first = revokeToken(dataDir, record.id, clock)
  clock.advance(1000)
  expect(revokeToken(dataDir, record.id, clock)).toEqual(first)
  expect(revokeToken(dataDir, 'tok_other', clock)).toBeUndefined()
  expect(store.check(token)).toEqual({ status: 'revoked' })
  expect(store.hasScope('read')).toBe(false)
})

it('keeps the tokens it knows when the file turns bad', () => {
  const { token } = createToken(dataDir, { scopes: ['read'] }, clock)
  const store = openStore()
  writeFileSync(tokenFilePath(dataDir), '{"tokens": [{"id": "x", "hash": "zz", "scopes": ["root"]}]}')
  clock.advance(1000)
  expect(store.check(token).status).toBe('valid')
  expect(String(errors[0])).toContain('cannot be read')
})

it.each(['', '{', '[]', '{"tokens": 3}', '{"tokens": [null]}'])('refuses to open on the file %j', (contents) => {
  writeFileSync(tokenFilePath(dataDir), contents)
  expect(openStore).toThrow(/tokens\.json cannot be read: .*create the tokens again$/)
})

it('passes a lock that a dead process left', () => {
  const lock = `${tokenFilePath(dataDir)}.lock`
  writeFileSync(lock, '')
  utimesSync(lock, new Date(0), new Date(0))
  expect(createToken(dataDir, { scopes: ['read'] }, clock).token).toMatch(/^kvt_/)
})

it('refuses a token without a scope', () => {
  expect(() => createToken(dataDir, { scopes: [] }, clock)).toThrow('--scope is missing')
})

it('loses no token when several processes make them at once', async () => {
  const program = fileURLToPath(new URL('../../../support/programs/create-tokens.ts', import.meta.url))
  const children = [1, 2, 3].map(() => spawn(process.execPath, [program, dataDir, '10'], { stdio: 'inherit' }))
  const codes = await Promise.all(children.map(async (child) => (await once(child, 'close'))[0] as number))
  expect(codes).toEqual([0, 0, 0])
  expect(new Set(listTokens(dataDir).map((record) => record.id)).size).toBe(30)
})
