import { expect, it } from 'vitest'
import { parseGivenTokens } from '../../../../src/server/http/given-tokens.ts'
import { hashToken } from '../../../../src/server/http/token-file.ts'

const TOKEN = 'a-long-random-text-1234'

it('reads tokens plain and hashed, by scope, with name and expiry', () => {
  const plain = parseGivenTokens(['# comment', '', `read+inference:${TOKEN} name=board expires=2027-01-01T00:00:00Z`])
  const hashed = parseGivenTokens([`read+inference:sha256:${hashToken(TOKEN)} name=board expires=2027-01-01T00:00:00Z`])
  expect(plain).toEqual(hashed)
  expect(plain).toMatchObject([
    { scopes: ['read', 'inference'], name: 'board', expiresAt: '2027-01-01T00:00:00.000Z', revokedAt: null },
  ])
  expect(JSON.stringify(plain)).not.toContain(TOKEN)
})

it.each([
  [TOKEN, 'no scope'],
  [`root:${TOKEN}`, 'unknown scope'],
  ['read:short-secret', '20 or more'],
  [`read:${TOKEN}\u00e9`, '20 or more'],
  [`read:sha256:${'z'.repeat(64)}`, '64 hex'],
  [`read:${TOKEN} owner=me`, 'more than name='],
  [`read:${TOKEN} expires=soon`, 'no time'],
])('refuses %j without repeating it', (entry, reason) => {
  const parse = () => parseGivenTokens(['# first', entry])
  expect(parse).toThrow(reason)
  expect(parse).toThrow(/^entry 2 /)
  expect(parse).not.toThrow(TOKEN)
  expect(parse).not.toThrow('short-secret')
})
