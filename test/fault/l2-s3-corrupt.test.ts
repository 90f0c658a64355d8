import { readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { OUTCOME_CORRUPT, OUTCOME_OK } from '../../src/l2/adapter.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { loadChain, lookupChain, NEVER, SPACE, storeChain } from '../support/l2-objects.ts'
import { random } from '../support/random.ts'
import { useS3Place } from '../support/s3-place.ts'
import { needsS3Server } from '../support/s3-server.ts'
import { until } from '../support/until.ts'

const place = useS3Place()

describe('a corrupt object in a bucket', needsS3Server(), () => {
  it('is never served, whichever byte of it changed, counted, and moved away', async () => {
    const adapter = await place.opened({ quarantineObjects: 5 })
    await storeChain(adapter, 1, 0, 1)
    const name = place.files('objects')[0]!
    const length = HEADER_BYTES + SPACE.shardBytes
    const next = random(4)
    const sampled = Array.from({ length: 24 }, () => next(length))
    for (const [count, offset] of [0, 9, 16, 24, 40, 70, 100, 4095, 4096, length - 1, ...sampled].entries()) {
      const record = readFileSync(name)
      record[offset] = record[offset]! ^ (1 << next(8))
      writeFileSync(name, record)
      expect([offset, await loadChain(adapter, 1, 0, 1)]).toEqual([offset, [OUTCOME_CORRUPT]])
      expect(adapter.usage().checksumFailures).toBe(count + 1)
      expect(await lookupChain(adapter, 1, 0, 1)).toEqual([0])
      expect(await storeChain(adapter, 1, 0, 1)).toEqual([OUTCOME_OK])
    }
    expect(place.files('quarantine').length).toBeLessThanOrEqual(5)
    expect(place.files('quarantine').length).toBeGreaterThan(0)
    expect(await loadChain(adapter, 1, 0, 1)).toEqual([OUTCOME_OK])
    adapter.verify()
  })

  it.each([
    [0, 0],
    [1, 1],
  ])('is kept for a look with room for %i of them', async (quarantineObjects, kept) => {
    const adapter = await place.opened({ quarantineObjects })
    await storeChain(adapter, 1, 0, 2)
    for (const name of place.files('objects')) {
      const record = readFileSync(name)
      record[HEADER_BYTES] = record[HEADER_BYTES]! ^ 1
      writeFileSync(name, record)
    }
    expect(await loadChain(adapter, 1, 0, 2)).toEqual([OUTCOME_CORRUPT, OUTCOME_CORRUPT])
    const isDone = () => place.files('objects').length === 0 && place.files('quarantine').length === kept
    await until(`no object is left, and ${kept} for a look`, () => isDone() || undefined)
  })

  it('is dropped at the next listing when its length is wrong', async () => {
    const adapter = await place.opened()
    await storeChain(adapter, 1, 0, 2)
    const name = place.files('objects').sort()[0]!
    writeFileSync(name, readFileSync(name).subarray(0, 100))
    await adapter.relist(NEVER)
    expect(adapter.usage()).toMatchObject({ objects: 1, checksumFailures: 1 })
    expect(place.files('objects')).toHaveLength(1)
  })
})
