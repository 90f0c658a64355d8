import { afterEach, expect, it } from 'vitest'
import { encodePayload } from '../../src/protocol/mp/client-codec.ts'
import { CHUNK, type Mp, startMp } from '../support/mp.ts'

let mp: Mp
afterEach(() => {
  expect(mp.bugs).toEqual([])
  mp.close()
})

it('sends no answer of another operation to clients that do not survive one', async () => {
  mp = await startMp()
  const worker = mp.connect({ timeoutMs: 200 })
  await worker.chunkTokens()
  expect(await worker.request(40)).toEqual(Buffer.of(0x90)) // get_experimental of 0.5.3 and 0.5.4
  await expect(worker.request(1)).rejects.toThrow(/answer/)
  expect(mp.lines).toEqual([expect.stringContaining('lmcache.mp.mp_transfer_mode')])
})

it('agrees on the chunk size with a client that says what it must be a multiple of', async () => {
  mp = await startMp()
  const client = mp.connect()
  expect(await client.request('negotiate_chunk_size', encodePayload.int(4))).toEqual(Buffer.of(CHUNK))
  await expect(client.request('negotiate_chunk_size', encodePayload.int(24))).rejects.toThrow('refused')
  expect(mp.lines).toEqual([expect.stringContaining('--chunk-tokens')])
})
