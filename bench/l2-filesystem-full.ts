import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SystemClock } from '../src/core/clock.ts'
import { HASH_BYTES } from '../src/core/hash-chain.ts'
import { type KeyBatch, type KeySpace, OUTCOME_OK } from '../src/l2/adapter.ts'
import { FilesystemAdapter } from '../src/l2/adapters/filesystem.ts'
import { FILESYSTEM_DEFAULT } from '../src/l2/options.ts'
import { lockFile } from '../src/native/file-lock.ts'

/**
 * The filesystem adapter filled to twice its capacity: does it keep its pace when each object costs another one?
 * The first half fills an empty directory, in the second every store evicts. Words: --dir DIR (a real disk),
 * --mib N (capacity), --durability fsync|checksum, --json.
 */
const MIB = 1024 * 1024
const SHARD_BYTES = MIB
const BATCH = 16
const BATCHES_IN_FLIGHT = 2
const PARTS = 8
const SPACE: KeySpace = { model: 'bench', salt: '', ranks: 1, rank: 0, shardBytes: SHARD_BYTES, layout: 'bench' }
const NEVER = new AbortController().signal

function wordAfter(flag: string): string | undefined {
  const at = process.argv.indexOf(flag)
  return at < 0 ? undefined : process.argv[at + 1]
}

/** The chunks [from, from + BATCH) of a chain of BATCH: short prompts, so that any chain may leave. */
function batchAt(from: number): KeyBatch {
  const hashes = Buffer.alloc(BATCH * HASH_BYTES)
  const parents = Buffer.alloc(BATCH * HASH_BYTES)
  for (let key = 0; key < BATCH; key += 1) {
    const write = (bytes: Buffer, number: number) => {
      bytes.writeUInt32LE(Math.imul(number, 0x9e3779b1) >>> 0, key * HASH_BYTES)
      bytes.writeUInt32LE(number, key * HASH_BYTES + 4)
    }
    write(hashes, from + key + 1)
    if (key > 0) write(parents, from + key)
  }
  return { space: SPACE, count: BATCH, hashes, parents }
}

async function main(): Promise<void> {
  const objects = Number(wordAfter('--mib') ?? 256)
  const durability = wordAfter('--durability') === 'checksum' ? 'checksum' : 'fsync'
  const parent = wordAfter('--dir') ?? tmpdir()
  const directory = mkdtempSync(join(parent, 'kvtier-full-'))
  const capacityBytes = objects * (SHARD_BYTES + 4096)
  const adapter = new FilesystemAdapter(
    { ...FILESYSTEM_DEFAULT, directory, capacityBytes, durability },
    { clock: new SystemClock(), lock: lockFile },
  )
  try {
    await adapter.open()
    const sources = Array.from({ length: BATCH }, () => new Uint8Array(SHARD_BYTES).fill(7))
    const total = 2 * objects
    const endedMs: number[] = []
    let mostBytes = 0
    let next = 0
    const startMs = performance.now()
    const run = async (): Promise<void> => {
      while (next < total) {
        const from = next
        next += BATCH
        const outcomes = new Uint8Array(BATCH)
        await adapter.store(batchAt(from), sources, outcomes, NEVER)
        if (outcomes.some((outcome) => outcome !== OUTCOME_OK)) throw new Error(`outcomes ${outcomes}`)
        mostBytes = Math.max(mostBytes, adapter.usage().bytes)
        endedMs.push(performance.now() - startMs)
      }
    }
    await Promise.all(Array.from({ length: BATCHES_IN_FLIGHT }, run))
    const rate = (fromShare: number, toShare: number): number => {
      const at = (share: number) => (share === 0 ? 0 : endedMs[Math.ceil(share * endedMs.length) - 1]!)
      return ((toShare - fromShare) * total) / ((at(toShare) - at(fromShare)) / 1000)
    }
    const parts = Array.from({ length: PARTS }, (_, part) => rate(part / PARTS, (part + 1) / PARTS))
    const report = {
      capacity_mib: objects,
      durability,
      first_half_mib_per_second: rate(0, 0.5),
      second_half_mib_per_second: rate(0.5, 1),
      second_to_first: rate(0.5, 1) / rate(0, 0.5),
      parts_mib_per_second: parts,
      most_share_of_capacity: mostBytes / capacityBytes,
      evicted_objects: adapter.usage().evictedObjects,
    }
    if (process.argv.includes('--json')) console.log(JSON.stringify(report))
    else {
      console.log(
        `${durability}, capacity ${objects} MiB, objects of 1 MiB, ${BATCHES_IN_FLIGHT} batches of ${BATCH} in flight`,
      )
      console.log(`by eighths, MiB/s: ${parts.map((value) => value.toFixed(0)).join(' ')}`)
      console.log(
        `filling ${report.first_half_mib_per_second.toFixed(0)} MiB/s, evicting ${report.second_half_mib_per_second.toFixed(0)} ` +
          `MiB/s: ${report.second_to_first.toFixed(2)}; at most ${(100 * report.most_share_of_capacity).toFixed(1)} % of the capacity`,
      )
    }
  } finally {
    await adapter.close()
    rmSync(directory, { recursive: true, force: true })
  }
}

await main()
