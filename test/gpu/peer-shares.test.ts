import { describe, expect, it } from 'vitest'
import { missingPython, runPeer } from '../support/python-peer.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { standInDriver } from '../support/stand-in-driver.ts'

const driver = await standInDriver()
const library = typeof driver === 'string' ? '' : driver.library
const reason = typeof driver === 'string' ? driver : missingPython()

describe('memory that a process in Python shares', skipUnless(reason === null, reason ?? ''), () => {
  it('is told as blocks of tensors, of every order that inference servers have', async () => {
    const [said] = await runPeer('shares.py', [library])
    const twice = (bytes: number) => [
      [0, bytes],
      [65_536, bytes],
    ]
    expect(said).toEqual({
      shareable: true,
      keysThenValues: [twice(20_480), [0, 10_240, 20_480, 30_720], 1024, 1024],
      headsBeforeTokens: [twice(20_480), [0, 10_240, 20_480, 30_720], 1024, 1024],
      latent: [twice(2560), [0, 2560], 256, 256],
      blocksFirst: [twice(20_480), [0, 20_480], 2048, 2048],
      gaps: expect.stringContaining('have gaps'),
      noBlocks: expect.stringContaining('no axis of 10 blocks'),
    })
  })

  it('has no handle when it is virtual: the error names who made it so', async () => {
    const [said] = await runPeer('shares.py', [library], 'python3', { STAND_IN_CUDA: 'virtual 1' })
    expect(said).toMatchObject({ shareable: false, latent: expect.stringContaining('sleep mode of vLLM') })
  })
})
