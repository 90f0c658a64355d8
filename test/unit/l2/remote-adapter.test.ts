import { MessageChannel, Worker } from 'node:worker_threads'
import { afterEach, expect, it } from 'vitest'
import { ManualClock } from '../../../src/core/clock.ts'
import { OUTCOME_OK } from '../../../src/l2/adapter.ts'
import { hostAdapters } from '../../../src/l2/adapter-host.ts'
import { MEMORY_DEFAULT } from '../../../src/l2/options.ts'
import { AdapterLink } from '../../../src/l2/remote-adapter.ts'
import { FaultAdapter } from '../../support/fault-adapter.ts'
import { blanks, chainBatch, loadChain, NEVER, payloads, SPACE, storeChain } from '../../support/l2-objects.ts'
import { settle } from '../../support/l2-set.ts'

const open: { close(): unknown }[] = []

afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
})

/** A link to a fault adapter in this thread, and the messages that crossed. */
async function linked(arena: Uint8Array | null = null) {
  const { port1, port2 } = new MessageChannel()
  open.push(port1)
  const sent: unknown[] = []
  const post = port1.postMessage.bind(port1)
  port1.postMessage = (message: unknown, transfer?: never) => {
    sent.push(structuredClone(message)) // posting takes buffers away
    post(message, transfer)
  }
  const adapter = new FaultAdapter(new ManualClock())
  hostAdapters(port2, arena, { memory: () => adapter, filesystem: () => adapter })
  const link = new AdapterLink(port1, arena)
  const remote = link.adapter(MEMORY_DEFAULT)
  await remote.open()
  return { link, remote, adapter, sent }
}

it('sends no bytes of objects that lie in the arena', async () => {
  const arena = new Uint8Array(new SharedArrayBuffer(64_000), 1000)
  const { remote, sent } = await linked(arena)
  const sources = [arena.subarray(5000, 6000), arena.subarray(0, 1000)]
  await remote.store(chainBatch(SPACE, 1, 0, 2), sources, new Uint8Array(2), NEVER)
  expect(sent.at(-1)).toMatchObject({ kind: 'store', offsets: Float64Array.of(5000, 0), inline: null })
})

it('sends bytes from elsewhere along, even if one object of the batch lies in the arena', async () => {
  const arena = new Uint8Array(new SharedArrayBuffer(64_000))
  const { remote, sent } = await linked(arena)
  const [first, second] = payloads(1, 0, 2)
  arena.set(first!)
  await remote.store(chainBatch(SPACE, 1, 0, 2), [arena.subarray(0, 1000), second!], new Uint8Array(2), NEVER)
  expect(sent.at(-1)).toMatchObject({ kind: 'store', offsets: null })
  expect(await loadChain(remote, 1, 0, 2)).toEqual([OUTCOME_OK, OUTCOME_OK])
})

it('leaves the batch of its caller whole, whatever memory its keys lie in', async () => {
  const { remote } = await linked()
  const wide = chainBatch(SPACE, 1, 0, 4)
  const batch = { ...wide, count: 2, hashes: Buffer.from(wide.hashes), parents: Buffer.from(wide.parents) }
  const found = new Uint8Array(2)
  await remote.lookup(batch, found, NEVER)
  expect(batch.hashes.length).toBe(128)
  expect(batch.hashes.equals(wide.hashes)).toBe(true)
})

it('forwards an abort, and waits for the adapter to let go', async () => {
  const { link, remote, adapter } = await linked()
  adapter.nextFault = () => 'hang'
  const abort = new AbortController()
  const running = remote.load(chainBatch(SPACE, 1, 0, 1), blanks(1), new Uint8Array(1), abort.signal)
  await settle()
  expect(link.inFlight).toBe(1)
  abort.abort()
  await expect(running).rejects.toMatchObject({ code: 'L2_TIMEOUT', message: 'the batch was given up' })
  expect(link.inFlight).toBe(0)
})

it('brings errors of the other side with code, message and detail', async () => {
  const { remote, adapter } = await linked()
  adapter.nextFault = () => 'reject_for_good'
  await expect(storeChain(remote, 1, 0, 1)).rejects.toMatchObject({ code: 'L2_CORRUPT', message: 'broken on purpose' })
})

it('knows the usage that came with the last answer', async () => {
  const { remote } = await linked()
  await storeChain(remote, 1, 0, 3)
  expect(remote.usage()).toMatchObject({ objects: 3, bytes: 3 * SPACE.shardBytes })
})

it('rejects what is in flight, and everything after, when the worker dies', async () => {
  const source = `
    const { parentPort } = require('node:worker_threads')
    parentPort.on('message', ({ id, kind }) => {
      const usage = { bytes: 0, objects: 0, capacityBytes: 0, evictedObjects: 0, checksumFailures: 0 }
      if (kind === 'open') parentPort.postMessage({ id, amount: 0, perKey: null, inline: null, usage, error: null })
    })`
  const worker = new Worker(source, { eval: true })
  const link = new AdapterLink(worker, null)
  const gone = new Promise<void>((resolve) => {
    worker.once('exit', (code) => {
      link.lose(`exit code ${code}`)
      resolve()
    })
  })
  const remote = link.adapter(MEMORY_DEFAULT)
  await remote.open()
  const running = storeChain(remote, 1, 0, 1)
  const watched = expect(running).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
  await worker.terminate()
  await gone
  await watched
  await expect(loadChain(remote, 1, 0, 1)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
  expect(await remote.lost).toMatchObject({ code: 'L2_UNAVAILABLE' })
  await remote.close()
})
