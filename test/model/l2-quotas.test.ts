import { afterAll, describe, expect, it } from 'vitest'
import { type KeySpace, type L2Adapter, OUTCOME_FULL, OUTCOME_OK } from '../../src/l2/adapter.ts'
import { MemoryAdapter } from '../../src/l2/adapters/memory.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { useL2Directory } from '../support/l2-directory.ts'
import { bytesOf, loadChain, lookupChain, NEVER, objectFiles, SPACE, storeChain } from '../support/l2-objects.ts'
import { random } from '../support/random.ts'
import { needsS3Server, S3Server, s3Adapter } from '../support/s3-server.ts'

const directory = useL2Directory()
const SALTS = ['alice', 'bob', '']
const MODELS = ['m', 'n']
const CHAINS = 6

interface Subject {
  readonly name: string
  readonly objectBytes: number
  open(capacityBytes: number): Promise<L2Adapter & { verify(): void }>
}

const SUBJECTS: readonly Subject[] = [
  {
    name: 'memory',
    objectBytes: SPACE.shardBytes,
    open: async (capacityBytes) => {
      const adapter = new MemoryAdapter({ type: 'memory', capacityBytes, keepBytes: true })
      await adapter.open()
      return adapter
    },
  },
  {
    name: 'filesystem',
    objectBytes: HEADER_BYTES + SPACE.shardBytes,
    open: (capacityBytes) => directory.open({ capacityBytes, durability: 'checksum' }),
  },
]
/** A server for the file, started by its first test; a prefix for each adapter. */
let server: S3Server | undefined
let made = 0
const S3: Subject = {
  name: 's3',
  objectBytes: HEADER_BYTES + SPACE.shardBytes,
  open: async (capacityBytes) => {
    server ??= await S3Server.start()
    made += 1
    const adapter = s3Adapter(server.options({ capacityBytes, prefix: `${made}/` }))
    await adapter.open()
    return adapter
  },
}

afterAll(() => server?.stop())

describe.each(SUBJECTS)('the quotas of a $name adapter', quotas)
describe('the quotas of an s3 adapter', needsS3Server(), () => quotas(S3))

const usageOf = async (adapter: L2Adapter, salt: string): Promise<number> =>
  (await adapter.tenants!(NEVER)).reduce((sum, tenant) => sum + (tenant.salt === salt ? tenant.bytes : 0), 0)

function quotas(subject: Subject): void {
  it.each([1, 2, 3])('keep every salt under its limit, over all models (seed %i)', async (seed) => {
    const next = random(seed)
    const unit = subject.objectBytes
    const adapter = await subject.open(10 * unit)
    const limits = new Map<string, number>()
    let defaultBytes = Number.POSITIVE_INFINITY
    const limitOf = (salt: string) => limits.get(salt) ?? defaultBytes
    const anySpace = (): KeySpace => ({ ...SPACE, model: MODELS[next(2)]!, salt: SALTS[next(3)]! })
    for (let step = 0; step < 80; step += 1) {
      const action = next(10)
      if (action < 6) {
        const works = Array.from({ length: 1 + next(3) }, () => {
          return storeChain(adapter, next(CHAINS), 0, 1 + next(7), anySpace())
        })
        for (const outcomes of await Promise.all(works)) {
          for (const outcome of outcomes) expect([OUTCOME_OK, OUTCOME_FULL]).toContain(outcome)
        }
      } else if (action < 8) await loadChain(adapter, next(CHAINS), 0, 7, anySpace())
      else if (action < 9) {
        const salt = SALTS[next(3)]!
        const bytes = next(4) === 0 ? undefined : next(14) * unit
        if (bytes === undefined) limits.delete(salt)
        else limits.set(salt, bytes)
        expect(await adapter.setQuotas!({ bySalt: [[salt, bytes]] }, NEVER)).toBe(true)
      } else {
        defaultBytes = next(2) === 0 ? Number.POSITIVE_INFINITY : (3 + next(10)) * unit
        await adapter.setQuotas!({ defaultBytes, bySalt: [] }, NEVER)
      }
      adapter.verify()
      for (const salt of SALTS) expect(await usageOf(adapter, salt)).toBeLessThanOrEqual(limitOf(salt))
      const tenants = await adapter.tenants!(NEVER)
      expect(tenants.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(adapter.usage().bytes)
      expect(tenants.reduce((sum, { objects }) => sum + objects, 0)).toBe(adapter.usage().objects)
      if (subject.name === 'filesystem') expect(bytesOf(objectFiles(directory.path))).toBe(adapter.usage().bytes)
    }
    expect(adapter.usage().quotaEvictedObjects).toBeGreaterThan(0)
    expect(adapter.usage().evictedObjects).toBeGreaterThan(0)
  })

  it('evict the own leaves of the salt, least recent first', async () => {
    const alice = { ...SPACE, salt: 'alice' }
    const bob = { ...SPACE, salt: 'bob' }
    const adapter = await subject.open(0)
    await storeChain(adapter, 9, 0, 3, bob) // older than all of alice
    await storeChain(adapter, 1, 0, 2, alice)
    await storeChain(adapter, 2, 0, 2, alice)
    await adapter.setQuotas!({ bySalt: [['alice', 4 * subject.objectBytes]] }, NEVER)
    expect(adapter.usage().objects).toBe(7)
    await loadChain(adapter, 1, 0, 2, alice)
    expect(await storeChain(adapter, 3, 0, 1, alice)).toEqual([OUTCOME_OK])
    expect(await lookupChain(adapter, 1, 0, 2, alice)).toEqual([1, 1])
    expect(await lookupChain(adapter, 2, 0, 2, alice)).toEqual([1, 0])
    expect(await lookupChain(adapter, 9, 0, 3, bob)).toEqual([1, 1, 1])
    await adapter.setQuotas!({ bySalt: [['alice', 0]] }, NEVER)
    expect(await adapter.tenants!(NEVER)).toEqual([
      { model: 'm', salt: 'bob', bytes: 3 * subject.objectBytes, objects: 3 },
    ])
    expect(await storeChain(adapter, 3, 0, 2, alice)).toEqual([OUTCOME_FULL, OUTCOME_FULL])
    expect(adapter.usage().quotaEvictedObjects).toBe(5)
    expect(adapter.usage().evictedObjects).toBe(0)
  })
}
