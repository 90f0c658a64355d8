import { closeSync, openSync, readSync, writeSync } from 'node:fs'
import { expect, it } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { type L2Adapter, OUTCOME_CORRUPT, OUTCOME_OK } from '../../src/l2/adapter.ts'
import { FilesystemAdapter } from '../../src/l2/adapters/filesystem.ts'
import { PEER_DEFAULT } from '../../src/l2/adapters/peer/options.ts'
import { PeerAdapter } from '../../src/l2/adapters/peer/peer-adapter.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { FILESYSTEM_DEFAULT } from '../../src/l2/options.ts'
import { lockFile } from '../../src/native/file-lock.ts'
import { pageMemory } from '../../src/native/page-memory.ts'
import { chainBatch, NEVER, objectFiles, SPACE, temporaryDirectory } from '../support/l2-objects.ts'
import { PeerDouble } from '../support/peer-double.ts'
import { random } from '../support/random.ts'
import { wholeFilesOf } from '../support/whole-files.ts'

// The same for redis and s3 stands beside their other faults.
const SAMPLES = 200

/** Stores one object, and loads it with each of some bits of its record turned round. None may be served. */
async function flipAll(
  adapter: L2Adapter,
  shardBytes: number,
  recordBytes: number,
  seed: number,
  flip: (at: number, bit: number) => void,
  store: (source: Uint8Array) => Promise<void>,
): Promise<void> {
  const next = random(seed)
  const source = pageMemory(shardBytes).map((_, at) => at * 31) as Buffer
  const edges = [0, 8, 10, 12, 16, 24, 32, 64, 96, 112, HEADER_BYTES - 4, HEADER_BYTES - 1, recordBytes - 1]
  const sampled = Array.from({ length: SAMPLES }, () => next(recordBytes))
  let served = 0
  for (const at of [...edges.filter((edge) => edge < recordBytes), ...sampled]) {
    await store(source)
    const bit = next(8)
    flip(at, bit)
    const target = pageMemory(shardBytes)
    const outcomes = new Uint8Array(1)
    const batch = chainBatch({ ...SPACE, shardBytes }, 1, 0, 1)
    expect(await adapter.load(batch, [target], outcomes, NEVER), `bit ${bit} of byte ${at}`).toBe(0)
    expect(outcomes[0], `bit ${bit} of byte ${at}`).toBe(OUTCOME_CORRUPT)
    served += 1
    expect(adapter.usage().checksumFailures).toBe(served)
  }
}

it.for([
  ['through the page cache', 'node:fs', 5_000, 1],
  ['past the page cache', 'node:fs', 256 * 1024, 2],
  ['through the page cache', 'the addon', 5_000, 3],
  ['past the page cache', 'the addon', 256 * 1024, 4],
] as const)(
  'the filesystem adapter never serves a flipped bit, wherever it is (%s, %s, shards of %i bytes, seed %i)',
  async ([_cache, way, shardBytes, seed], context) => {
    const whole = await wholeFilesOf(way, context)
    const directory = temporaryDirectory()
    const options = { ...FILESYSTEM_DEFAULT, directory: directory.path, durability: 'checksum' } as const
    const adapter = new FilesystemAdapter(options, { clock: new SystemClock(), lock: lockFile, whole })
    try {
      await adapter.open()
      const batch = chainBatch({ ...SPACE, shardBytes }, 1, 0, 1)
      const store = async (source: Uint8Array) => {
        const outcomes = new Uint8Array(1)
        await adapter.store(batch, [source], outcomes, NEVER)
        expect(outcomes[0]).toBe(OUTCOME_OK)
      }
      const flip = (at: number, bit: number) => flipFile(objectFiles(directory.path)[0]!.path, at, bit)
      await flipAll(adapter, shardBytes, HEADER_BYTES + shardBytes, seed, flip, store)
    } finally {
      await adapter.close()
      directory.remove()
    }
  },
)

it('the peer adapter never serves a flipped bit, wherever it is', async () => {
  const peer = await PeerDouble.start()
  const parts = { resolve: async () => [], ownAddresses: new Set<string>(), readFile: async () => '' }
  const options = { ...PEER_DEFAULT, urls: [peer.url], answerMs: 20_000 }
  const adapter = new PeerAdapter(options, { clock: new SystemClock(), ...parts })
  try {
    await adapter.open()
    const flip = (at: number, bit: number) => {
      peer.fetching = 'altered'
      peer.altered = { at, bit }
    }
    const store = async (source: Uint8Array) => peer.hold(chainBatch(SPACE, 1, 0, 1), [source])
    await flipAll(adapter, SPACE.shardBytes, SPACE.shardBytes, 3, flip, store)
  } finally {
    await adapter.close()
    await peer.close()
  }
})

function flipFile(path: string, at: number, bit: number): void {
  const file = openSync(path, 'r+')
  const byte = Buffer.alloc(1)
  readSync(file, byte, 0, 1, at)
  byte[0]! ^= 1 << bit
  writeSync(file, byte, 0, 1, at)
  closeSync(file)
}
