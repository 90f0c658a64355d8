import { expect, it } from 'vitest'
import { ChunkHasher } from '../../../../src/core/chunk-hash.ts'
import type { SpaceId } from '../../../../src/core/ids.ts'
import { PromptHasher } from '../../../../src/engine/prompt-hasher.ts'
import { MpSessions } from '../../../../src/server/mp/mp-sessions.ts'

const MIB = 1024 * 1024
/** All that sessions may remember, and the hashes of their chunks. */
const SESSIONS_BYTES = 256 * MIB
const CHUNK_TOKENS = 1024
const SPACE = 0 as SpaceId
const hasher = new PromptHasher(await ChunkHasher.create(), [], { inlineChunks: 16 })

it('remembers only so many tokens of all sessions, however they came to have them', () => {
  const sessions = new MpSessions(1000, hasher, CHUNK_TOKENS)
  const long = new Uint32Array((8 * MIB) / 4)
  for (let request = 0; request < 64; request += 1) sessions.open(SPACE, `${request}`, long.subarray(0, 1))
  expect(sessions.count).toBe(64)
  for (let request = 0; request < 64; request += 1) sessions.open(SPACE, `${request}`, long)
  const most = Math.floor(SESSIONS_BYTES / long.byteLength)
  expect(sessions.count).toBeGreaterThan(most / 2)
  expect(sessions.count).toBeLessThan(most)
  expect(sessions.find(SPACE, '63')?.tokens.length).toBe(long.length)
  expect(sessions.find(SPACE, '0')).toBeUndefined()
})

it('gives back what a session no longer remembers, when its prompt is replaced by a shorter one', () => {
  const sessions = new MpSessions(1000, hasher, CHUNK_TOKENS)
  const long = new Uint32Array((8 * MIB) / 4)
  const other = Uint32Array.of(7)
  for (let request = 0; request < 64; request += 1) {
    sessions.open(SPACE, `${request}`, long)
    sessions.open(SPACE, `${request}`, other)
  }
  expect(sessions.count).toBe(64)
})

it('keeps the hold of a session that learns more tokens', () => {
  const sessions = new MpSessions(4, hasher, CHUNK_TOKENS)
  const tokens = Uint32Array.from({ length: 4 }, (_, at) => at)
  const session = sessions.open(SPACE, 'a', tokens.subarray(0, 2))
  expect(sessions.open(SPACE, 'a', tokens)).toBe(session)
  expect([session.isOpen, session.tokens.length, sessions.count]).toEqual([true, 4, 1])
  sessions.close(SPACE, 'a')
  expect(session.isOpen).toBe(false)
})
