import { MessageChannel } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { HASH_BYTES } from '../../src/core/hash-chain.ts'
import {
  type KeyBatch,
  type L2Adapter,
  OUTCOME_CORRUPT,
  OUTCOME_FULL,
  OUTCOME_NOT_FOUND,
  OUTCOME_OK,
} from '../../src/l2/adapter.ts'
import { hostAdapters } from '../../src/l2/adapter-host.ts'
import { payloadSum } from '../../src/l2/object-format.ts'
import type { BackendOptions } from '../../src/l2/options.ts'
import { AdapterLink } from '../../src/l2/remote-adapter.ts'
import { ArenaClient } from '../support/arena-client.ts'
import {
  blanks,
  chainBatch,
  hashOf,
  loadChain,
  lookupChain,
  NEVER,
  payloads,
  SPACE,
  storeChain,
} from '../support/l2-objects.ts'
import { random } from '../support/random.ts'

/** One way of making an adapter. `objectBytes`: what an object of 1000 bytes counts. */
export interface Subject {
  readonly objectBytes: number
  make(capacityBytes: number): { adapter: L2Adapter; dispose(): void | Promise<void> }
}

/** The same adapter behind a port, with the bytes in messages, or in an arena that both sides see. */
export function remote(subject: Subject, backend: BackendOptions, arena: Uint8Array | null = null): Subject {
  return {
    objectBytes: subject.objectBytes,
    make: (capacityBytes) => {
      const { adapter, dispose } = subject.make(capacityBytes)
      const { port1, port2 } = new MessageChannel()
      hostAdapters(port2, arena, { [backend.type]: () => adapter })
      const proxy = new AdapterLink(port1, arena).adapter({ ...backend, capacityBytes } as BackendOptions)
      return {
        adapter: arena === null ? proxy : new ArenaClient(proxy, arena),
        dispose: async () => {
          port1.close()
          await dispose()
        },
      }
    },
  }
}

const OTHER_SPACES = {
  model: { ...SPACE, model: 'n' },
  salt: { ...SPACE, salt: 's' },
  ranks: { ...SPACE, ranks: 2 },
  rank: { ...SPACE, ranks: 2, rank: 1 },
  layout: { ...SPACE, layout: 'layout-2' },
}

/**
 * What every L2 adapter does, whatever it keeps its objects in.
 * @param options of the `describe`: why it cannot run here.
 */
export function l2AdapterContract(name: string, subject: Subject, options = {}): void {
  describe(`the ${name} adapter`, options, () => {
    let adapter: L2Adapter
    let disposals: (() => void | Promise<void>)[] = []

    async function open(capacityObjects = 0): Promise<L2Adapter> {
      const made = subject.make(capacityObjects * subject.objectBytes)
      disposals.push(() => made.adapter.close(), made.dispose)
      await made.adapter.open()
      return made.adapter
    }

    beforeEach(async () => {
      adapter = await open()
    })

    afterEach(async () => {
      for (const dispose of disposals) await dispose()
      disposals = []
    })

    it('gives back what was stored', async () => {
      expect(await storeChain(adapter, 1, 0, 5)).toEqual(Array(5).fill(OUTCOME_OK))
      expect(await loadChain(adapter, 1, 0, 5)).toEqual(Array(5).fill(OUTCOME_OK))
    })

    it('answers a lookup for each key', async () => {
      await storeChain(adapter, 1, 0, 3)
      expect(await lookupChain(adapter, 1, 0, 5)).toEqual([1, 1, 1, 0, 0])
      expect(await lookupChain(adapter, 2, 0, 2)).toEqual([0, 0])
    })

    it('reports an absent object as not found, beside objects that are there', async () => {
      await storeChain(adapter, 1, 1, 2)
      expect(await loadChain(adapter, 1, 0, 3)).toEqual([OUTCOME_NOT_FOUND, OUTCOME_OK, OUTCOME_NOT_FOUND])
    })

    it.each(Object.entries(OTHER_SPACES))('keeps objects of another %s apart', async (_field, other) => {
      await storeChain(adapter, 1, 0, 2)
      expect(await lookupChain(adapter, 1, 0, 2, other)).toEqual([0, 0])
      expect(await loadChain(adapter, 1, 0, 2, other)).toEqual([OUTCOME_NOT_FOUND, OUTCOME_NOT_FOUND])
      expect(await storeChain(adapter, 1, 0, 1, other)).toEqual([OUTCOME_OK])
      expect(adapter.usage().objects).toBe(3)
    })

    it('writes an object once, and reports the bytes that were new', async () => {
      const outcomes = new Uint8Array(3)
      const store = (to: number) => adapter.store(chainBatch(SPACE, 1, 0, to), payloads(1, 0, to), outcomes, NEVER)
      expect(await store(2)).toBe(2 * SPACE.shardBytes)
      expect(await store(3)).toBe(SPACE.shardBytes)
      expect(adapter.usage()).toMatchObject({ objects: 3, bytes: 3 * subject.objectBytes })
    })

    it('stores a key that stands twice in a batch, or in two batches at once, one time', async () => {
      const batch = chainBatch(SPACE, 1, 0, 2)
      const twice = { ...batch, hashes: new Uint8Array(64), parents: new Uint8Array(64) }
      twice.hashes.set(batch.hashes.subarray(0, 32))
      twice.hashes.set(batch.hashes.subarray(0, 32), 32)
      const sources = [...payloads(1, 0, 1), ...payloads(1, 0, 1)]
      const outcomes = [new Uint8Array(2), new Uint8Array(2), new Uint8Array(2)]
      const written = await Promise.all(outcomes.map((out) => adapter.store(twice, sources, out, NEVER)))
      expect(outcomes.every((out) => out.every((outcome) => outcome === OUTCOME_OK))).toBe(true)
      expect(written.reduce((sum, bytes) => sum + bytes)).toBe(SPACE.shardBytes)
      expect(adapter.usage()).toMatchObject({ objects: 1, bytes: subject.objectBytes })
    })

    it('reports the bytes that were read', async () => {
      await storeChain(adapter, 1, 0, 2)
      const bytes = await adapter.load(chainBatch(SPACE, 1, 0, 3), blanks(3), new Uint8Array(3), NEVER)
      expect(bytes).toBe(2 * SPACE.shardBytes)
    })

    it('keeps its own copy of what it was given', async () => {
      const sources = payloads(1, 0, 1)
      await adapter.store(chainBatch(SPACE, 1, 0, 1), sources, new Uint8Array(1), NEVER)
      sources[0]!.fill(0)
      expect(await loadChain(adapter, 1, 0, 1)).toEqual([OUTCOME_OK])
    })

    it('stores nothing of which the bytes have another sum than its owner knows', async () => {
      const sources = payloads(1, 0, 3)
      const sums = Uint32Array.from(sources, (source) => payloadSum(source))
      sources[1]![400]! ^= 4
      const outcomes = new Uint8Array(3)
      const written = await adapter.store({ ...chainBatch(SPACE, 1, 0, 3), sums }, sources, outcomes, NEVER)
      expect([...outcomes]).toEqual([OUTCOME_OK, OUTCOME_CORRUPT, OUTCOME_OK])
      expect(written).toBe(2 * SPACE.shardBytes)
      expect(await lookupChain(adapter, 1, 0, 3)).toEqual([1, 0, 1])
      expect(adapter.usage()).toMatchObject({ objects: 2, bytes: 2 * subject.objectBytes, checksumFailures: 0 })
      expect(await storeChain(adapter, 1, 1, 2)).toEqual([OUTCOME_OK])
      expect(await loadChain(adapter, 1, 0, 3)).toEqual([OUTCOME_OK, OUTCOME_OK, OUTCOME_OK])
    })

    it('ends a batch well of which every object has another sum', async () => {
      const sums = Uint32Array.of(1, 2)
      const outcomes = new Uint8Array(2)
      const batch = { ...chainBatch(SPACE, 1, 0, 2), sums }
      expect(await adapter.store(batch, payloads(1, 0, 2), outcomes, NEVER)).toBe(0)
      expect([...outcomes]).toEqual([OUTCOME_CORRUPT, OUTCOME_CORRUPT])
      expect(adapter.usage().objects).toBe(0)
    })

    it('fills in the sums that its caller does not know', async () => {
      const sources = payloads(1, 0, 3)
      const expected = sources.map((source) => payloadSum(source))
      const sums = Uint32Array.of(0, expected[1]!, 0)
      await adapter.store({ ...chainBatch(SPACE, 1, 0, 3), sums }, sources, new Uint8Array(3), NEVER)
      expect([...sums]).toEqual(expected)
    })

    it('removes objects, and says how many were there', async () => {
      await storeChain(adapter, 1, 0, 3)
      expect(await adapter.remove(chainBatch(SPACE, 1, 2, 5), NEVER)).toBe(1)
      expect(await lookupChain(adapter, 1, 0, 3)).toEqual([1, 1, 0])
      expect(adapter.usage()).toMatchObject({ objects: 2, bytes: 2 * subject.objectBytes })
      expect(await storeChain(adapter, 1, 2, 3)).toEqual([OUTCOME_OK])
    })

    it('clears a salt, a model, or everything', async () => {
      await storeChain(adapter, 1, 0, 2)
      await storeChain(adapter, 1, 0, 2, OTHER_SPACES.salt)
      await storeChain(adapter, 1, 0, 2, OTHER_SPACES.model)
      expect(await adapter.clear({ model: 'm', salt: 's' }, NEVER)).toBe(2)
      expect(await lookupChain(adapter, 1, 0, 2)).toEqual([1, 1])
      expect(await adapter.clear({ model: 'm' }, NEVER)).toBe(2)
      expect(await adapter.clear({}, NEVER)).toBe(2)
      expect(adapter.usage()).toMatchObject({ objects: 0, bytes: 0 })
    })

    it('makes room by the least recent leaf, never by a parent of what it holds', async () => {
      const small = await open(4)
      await storeChain(small, 1, 0, 2)
      await storeChain(small, 2, 0, 2)
      await loadChain(small, 1, 0, 2)
      await storeChain(small, 3, 0, 1)
      expect(await lookupChain(small, 2, 0, 2)).toEqual([1, 0])
      expect(await lookupChain(small, 1, 0, 2)).toEqual([1, 1])
      expect(small.usage()).toMatchObject({ objects: 4, bytes: 4 * subject.objectBytes, evictedObjects: 1 })
    })

    it('is full for the tail of a chain that is longer than its capacity', async () => {
      const small = await open(3)
      const outcomes = await storeChain(small, 1, 0, 5)
      expect(outcomes).toEqual([OUTCOME_OK, OUTCOME_OK, OUTCOME_OK, OUTCOME_FULL, OUTCOME_FULL])
      expect(await lookupChain(small, 1, 0, 5)).toEqual([1, 1, 1, 0, 0])
    })

    it('is full for an object larger than its capacity, and evicts nothing for it', async () => {
      const small = await open(2)
      await storeChain(small, 1, 0, 2)
      expect(await storeChain(small, 2, 0, 1, { ...SPACE, shardBytes: 20_000 })).toEqual([OUTCOME_FULL])
      expect(await lookupChain(small, 1, 0, 2)).toEqual([1, 1])
    })

    it('has no place for an object that would be its own ancestor, and goes on with the others', async () => {
      const none = new Uint8Array(HASH_BYTES)
      const [above, middle, below, other] = [0, 1, 2, 3].map((index) => hashOf(1, index)) as [
        Uint8Array,
        Uint8Array,
        Uint8Array,
        Uint8Array,
      ]
      const batchOf = (pairs: [hash: Uint8Array, parent: Uint8Array][]) => ({
        space: SPACE,
        count: pairs.length,
        hashes: Buffer.concat(pairs.map(([hash]) => hash)),
        parents: Buffer.concat(pairs.map(([, parent]) => parent)),
      })
      const store = async (...pairs: [hash: Uint8Array, parent: Uint8Array][]) => {
        const outcomes = new Uint8Array(pairs.length)
        await adapter.store(batchOf(pairs), payloads(1, 0, pairs.length), outcomes, NEVER)
        return [...outcomes]
      }
      expect(await store([middle, above], [below, middle])).toEqual([OUTCOME_OK, OUTCOME_OK])
      expect(await store([none, none], [above, below], [other, none])).toEqual([OUTCOME_FULL, OUTCOME_FULL, OUTCOME_OK])
      const found = new Uint8Array(4)
      const kept = batchOf([
        [middle, above],
        [below, middle],
        [other, none],
        [above, below],
      ])
      await adapter.lookup(kept, found, NEVER)
      expect([...found]).toEqual([1, 1, 1, 0])
      const outcomes = new Uint8Array(4)
      await adapter.load(kept, blanks(4), outcomes, NEVER)
      expect([...outcomes]).toEqual([OUTCOME_OK, OUTCOME_OK, OUTCOME_OK, OUTCOME_NOT_FOUND])
      expect(await store([above, none])).toEqual([OUTCOME_OK])
    })

    it('refreshes nothing by a lookup', async () => {
      const small = await open(2)
      await storeChain(small, 1, 0, 1)
      await storeChain(small, 2, 0, 1)
      await lookupChain(small, 1, 0, 1)
      await storeChain(small, 3, 0, 1)
      expect(await lookupChain(small, 1, 0, 1)).toEqual([0])
    })

    it('lists every object with its parent, a page at a time', async () => {
      await storeChain(adapter, 1, 0, 7)
      await storeChain(adapter, 2, 0, 3, OTHER_SPACES.salt)
      const listed = await listAll(adapter, 4)
      const expected = [...namesOf(chainBatch(SPACE, 1, 0, 7)), ...namesOf(chainBatch(OTHER_SPACES.salt, 2, 0, 3))]
      expect(listed.toSorted()).toEqual(expected.toSorted())
    })

    it('lists nothing when it holds nothing, and refuses a cursor that it never gave', async () => {
      expect(await listAll(adapter, 4)).toEqual([])
      const refused = adapter.list?.('../1', 4, NEVER)
      await expect(refused).rejects.toMatchObject({ code: 'BAD_REQUEST' })
    })

    it('lists what is held all the while, whatever comes and goes between the pages', async () => {
      await storeChain(adapter, 1, 0, 8)
      await storeChain(adapter, 2, 0, 8)
      let step = 0
      const listed = await listAll(adapter, 3, async () => {
        await adapter.remove(chainBatch(SPACE, 2, 7 - step, 8 - step), NEVER)
        await storeChain(adapter, 3 + step, 0, 2)
        step += 1
      })
      for (const name of namesOf(chainBatch(SPACE, 1, 0, 8))) expect(listed).toContain(name)
    })

    it('scrubs without bytes: the outcome of each key, and nothing refreshed', async () => {
      const small = await open(2)
      await storeChain(small, 1, 0, 1)
      await storeChain(small, 2, 0, 1)
      const outcomes = new Uint8Array(2)
      const bytes = await small.scrub!(chainBatch(SPACE, 1, 0, 2), outcomes, NEVER)
      expect([...outcomes]).toEqual([OUTCOME_OK, OUTCOME_NOT_FOUND])
      expect(bytes).toBe(SPACE.shardBytes)
      await storeChain(small, 3, 0, 1)
      expect(await lookupChain(small, 1, 0, 1)).toEqual([0])
    })

    it('tries nothing when the batch was given up before', async () => {
      const batch = chainBatch(SPACE, 1, 0, 1)
      const gone = AbortSignal.abort()
      await expect(adapter.store(batch, payloads(1, 0, 1), new Uint8Array(1), gone)).rejects.toMatchObject({
        code: 'L2_TIMEOUT',
      })
      await expect(adapter.load(batch, blanks(1), new Uint8Array(1), gone)).rejects.toMatchObject({
        code: 'L2_TIMEOUT',
      })
      expect(await lookupChain(adapter, 1, 0, 1)).toEqual([0])
    })

    it('rejects calls when closed', async () => {
      await adapter.close()
      await expect(lookupChain(adapter, 1, 0, 1)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
      await expect(storeChain(adapter, 1, 0, 1)).rejects.toMatchObject({ code: 'L2_UNAVAILABLE' })
    })

    // Oracle: a set of what was stored and not removed; without a capacity nothing else may vanish.
    it.each([1, 2])('holds what a set holds (seed %i)', async (seed) => {
      const next = random(seed)
      const held = new Set<string>()
      const names = (chain: number, from: number, to: number) =>
        Array.from({ length: to - from }, (_, at) => `${chain}:${from + at}`)
      for (let step = 0; step < 120; step += 1) {
        const chain = next(4)
        const from = next(6)
        const to = from + 1 + next(4)
        const action = next(8)
        if (action < 4) {
          await storeChain(adapter, chain, from, to)
          for (const name of names(chain, from, to)) held.add(name)
        } else if (action < 5) {
          await adapter.remove(chainBatch(SPACE, chain, from, to), NEVER)
          for (const name of names(chain, from, to)) held.delete(name)
        }
        const outcomes = await loadChain(adapter, chain, from, to)
        expect(outcomes.map((outcome) => outcome === OUTCOME_OK)).toEqual(
          names(chain, from, to).map((name) => held.has(name)),
        )
        expect(adapter.usage()).toMatchObject({ objects: held.size, bytes: held.size * subject.objectBytes })
      }
    })
  })
}

/** Model, salt, hash and parent of each key. */
function namesOf({ space, count, hashes, parents }: KeyBatch): string[] {
  const hex = (bytes: Uint8Array, key: number) => Buffer.from(bytes.subarray(key * 32, key * 32 + 32)).toString('hex')
  return Array.from({ length: count }, (_, key) =>
    [space.model, space.salt, hex(hashes, key), hex(parents, key)].join(' '),
  )
}

/** Everything that an adapter lists. @param between runs after each page but the last. */
async function listAll(adapter: L2Adapter, countMax: number, between?: () => Promise<void>): Promise<string[]> {
  const names: string[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await adapter.list!(cursor, countMax, NEVER)
    expect(page.batches.reduce((sum, { count }) => sum + count, 0)).toBeLessThanOrEqual(countMax)
    names.push(...page.batches.flatMap(namesOf))
    cursor = page.cursor
    if (cursor !== null) await between?.()
  }
  return names
}
