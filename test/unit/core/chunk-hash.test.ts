import { expect, it } from 'vitest'
import { ChunkHasher } from '../../../src/core/chunk-hash.ts'
import { HashChain } from '../../../src/core/hash-chain.ts'
import { random } from '../../support/random.ts'

const hasher = await ChunkHasher.create()
const tokensUpTo = (count: number) => Uint32Array.from({ length: count }, (_, index) => index)

it('gives the golden vectors of the reference chain', () => {
  const chain = new HashChain(1)
  expect(hasher.extend(chain, tokensUpTo(512), 256)).toBe(2)
  expect(Buffer.from(hasher.root).toString('hex')).toBe(
    '7e3eff9ef7613a50340eb12677ee03b83ac759fcba9bb32705f07248d56d473b',
  )
  expect(chain.hex(0)).toBe('084547b6c40ed5b05ba8cd0305db5bf74d5617673948d9ed193ab7d6cbc484d4')
  expect(chain.hex(1)).toBe('e5ffee45c2b9db326814c9692dc594369887ba3b0df5761817820b60f864c8e0')
})

it('leaves a partial chunk out', () => {
  const chain = new HashChain(1)
  expect(hasher.extend(chain, tokensUpTo(511), 256)).toBe(1)
  expect(hasher.extend(new HashChain(1), tokensUpTo(255), 256)).toBe(0)
})

it.each([1, 2, 3])('extends a chain piece by piece to the same hashes as at once (seed %i)', (seed) => {
  const next = random(seed)
  const chunkTokens = 1 + next(64)
  const tokens = Uint32Array.from({ length: 2_000 }, () => next(2 ** 32))
  const whole = new HashChain(0)
  hasher.extend(whole, tokens, chunkTokens)
  const pieces = new HashChain(0)
  for (let length = 0; length < tokens.length; length += next(300)) {
    hasher.extend(pieces, tokens.subarray(0, length), chunkTokens)
  }
  hasher.extend(pieces, tokens, chunkTokens)
  expect(pieces.count).toBe(whole.count)
  expect(pieces.bytes.subarray(0, pieces.count * 32)).toEqual(whole.bytes.subarray(0, whole.count * 32))
})
