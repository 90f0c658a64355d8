import { expect, it } from 'vitest'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { useL2Directory } from '../support/l2-directory.ts'
import { bytesOf, chainBatch, filesBelow, NEVER, objectFiles, payloads, SPACE } from '../support/l2-objects.ts'

const directory = useL2Directory()
const OBJECT_BYTES = HEADER_BYTES + SPACE.shardBytes
const OBJECTS = 60
const BATCHES = 4

// What a user of the disk sees: object files and half-written ones, looked at all the while.
it.each(['fsync', 'checksum'] as const)(
  'stays under its limit while it is filled twice over, four batches at a time (%s)',
  async (durability) => {
    const capacityBytes = OBJECTS * OBJECT_BYTES
    const adapter = await directory.open({ capacityBytes, durability, parallelism: 4 })
    let isDone = false
    let mostBytes = 0
    let looks = 0
    const watch = async (): Promise<void> => {
      while (!isDone) {
        const onDisk = filesBelow(directory.path).filter(({ path }) => /[0-9a-f]{64}/.test(path))
        mostBytes = Math.max(mostBytes, bytesOf(onDisk))
        looks += 1
        await new Promise<void>((resolve) => setImmediate(resolve))
      }
    }
    const watching = watch()
    let stored = 0
    for (let chain = 0; stored < 2 * OBJECTS; chain += BATCHES) {
      const works = Array.from({ length: BATCHES }, async (_, at) => {
        const outcomes = new Uint8Array(5)
        await adapter.store(chainBatch(SPACE, chain + at, 0, 5), payloads(chain + at, 0, 5), outcomes, NEVER)
        expect([...outcomes]).toEqual([0, 0, 0, 0, 0])
      })
      await Promise.all(works)
      stored += BATCHES * 5
      expect(adapter.usage().bytes).toBeLessThanOrEqual(capacityBytes)
    }
    isDone = true
    await watching
    expect(looks).toBeGreaterThan(10)
    expect(mostBytes).toBeGreaterThan(capacityBytes / 2)
    expect(mostBytes).toBeLessThanOrEqual(capacityBytes + OBJECT_BYTES)
    expect(bytesOf(objectFiles(directory.path))).toBe(adapter.usage().bytes)
    expect(adapter.usage().objects).toBe(OBJECTS)
    expect(adapter.usage().evictedObjects).toBe(stored - OBJECTS)
  },
)
