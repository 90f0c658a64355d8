import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { LRUCache } from 'lru-cache'
import { HASH_WORDS } from '../src/core/hash-chain.ts'
import { type Figure, printReport, ratioFigure } from './support/figures.ts'
import { BATCH_RUNS, L1Scene, mix, RUN_CHUNKS, writeHash } from './support/l1-scene.ts'
import { PlainLru } from './support/plain-lru.ts'
import { Samples } from './support/samples.ts'

/**
 * L1 index against Map, lru-cache and a plain typed-array LRU: ns a chunk, from 10 thousand chunks on.
 *
 * Ours does the whole work of a cache: runs are found, leased, served and released; stores evict leaf first and keep
 * parents, shards, tenants and ghosts. The others only find and touch, or add and drop the oldest. The keys of Map and
 * lru-cache are strings, made of the 32 bytes of a hash on each use, as they are of what comes over a wire. Map drops
 * the oldest by `keys().next()`. Batches of all sides take turns; figures are the lower tenth of
 * batches: other load on the machine only adds time. The cost of ours must stay flat: grow no more than that of
 * the plain LRU, which has nothing but cache misses to grow by. Words: --json, --sizes 10000,100000,1000000 (10000000 with --full: 3 GB of heap).
 */
const BATCH = BATCH_RUNS * RUN_CHUNKS
const PAIRS = 15
const ROUNDS = 8
const RECENT_RATIO = 0.4
const GROWTH_MAX = 1.5
const FAST = 0.1

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

interface Rival {
  readonly name: string
  /** Touches chunks by number. */
  readonly hit: (words: Uint32Array) => void
  readonly store: (words: Uint32Array) => void
}

class Keys {
  readonly words = new Uint32Array(BATCH * HASH_WORDS)
  readonly #bytes = Buffer.from(this.words.buffer)

  at(chunk: number): string {
    return this.#bytes.toString('latin1', chunk * 4 * HASH_WORDS, (chunk + 1) * 4 * HASH_WORDS)
  }
}

function mustHit(isHit: boolean): void {
  if (!isHit) throw new Error('a resident chunk was not found')
}

function rivalsOf(chunks: number, keys: Keys): (() => Rival)[] {
  const each = (work: (chunk: number) => void) => () => {
    for (let chunk = 0; chunk < BATCH; chunk += 1) work(chunk)
  }
  return [
    () => {
      const plain = new PlainLru(chunks)
      return {
        name: 'typed-array LRU',
        hit: each((chunk) => mustHit(plain.touch(keys.words, chunk * HASH_WORDS))),
        store: each((chunk) => plain.add(keys.words, chunk * HASH_WORDS)),
      }
    },
    () => {
      const lru = new LRUCache<string, number>({ max: chunks })
      return {
        name: 'lru-cache',
        hit: each((chunk) => mustHit(lru.get(keys.at(chunk)) !== undefined)),
        store: each((chunk) => lru.set(keys.at(chunk), chunk)),
      }
    },
    () => {
      const map = new Map<string, number>()
      return {
        name: 'Map',
        hit: each((chunk) => {
          const key = keys.at(chunk)
          const value = map.get(key)
          mustHit(value !== undefined)
          map.delete(key)
          map.set(key, value!)
        }),
        store: each((chunk) => {
          if (map.size >= chunks) map.delete(map.keys().next().value!)
          map.set(keys.at(chunk), chunk)
        }),
      }
    },
  ]
}

/** @returns ns. */
function timed(work: () => void): number {
  const before = performance.now()
  work()
  return (performance.now() - before) * 1e6
}

/** Bytes that making and filling takes, and the thing. */
function weighed<Value>(chunks: number, make: () => Value): { value: Value; bytes: number } {
  const used = () => {
    collect()
    collect()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    return heapUsed + arrayBuffers
  }
  const before = used()
  const value = make()
  return { value, bytes: (used() - before) / chunks }
}

/** Fills each rival of this size, one after the other, then lets them take turns. */
function measure(chunks: number) {
  const keys = new Keys()
  const { value: scene, bytes: sceneBytes } = weighed(chunks, () => {
    const made = new L1Scene(chunks, 'lru')
    made.fill()
    return made
  })
  const bytes = new Map([['kvtier', sceneBytes]])
  const batches = Math.floor(chunks / BATCH)
  const name = (first: number) => {
    for (let at = 0; at < BATCH; at += 1) writeHash(keys.words, at * HASH_WORDS, first + at)
  }
  const rivals = rivalsOf(chunks, keys).map((make) => {
    const { value: rival, bytes: taken } = weighed(chunks, () => {
      const made = make()
      for (let batch = 0; batch < batches; batch += 1) {
        name(batch * BATCH)
        made.store(keys.words)
      }
      return made
    })
    bytes.set(rival.name, taken)
    return rival
  })
  const times = new Map<string, Samples>()
  const note = (key: string, ns: number) => {
    const known = times.get(key) ?? new Samples()
    known.push(ns)
    times.set(key, known)
  }
  let stored = batches
  let seed = chunks
  for (let pair = -2; pair < PAIRS; pair += 1) {
    const add = (key: string, ns: number) => {
      if (pair >= 0) note(key, ns / BATCH)
    }
    for (let round = 0; round < ROUNDS; round += 1) {
      add(
        'kvtier hit',
        timed(() => void scene.hits()),
      )
      add(
        'kvtier store',
        timed(() => void scene.stores()),
      )
      seed = mix(seed)
      name((stored - 1 - (seed % Math.max(1, Math.floor(batches * RECENT_RATIO)))) * BATCH)
      for (const rival of rivals)
        add(
          `${rival.name} hit`,
          timed(() => rival.hit(keys.words)),
        )
      name(stored * BATCH)
      for (const rival of rivals)
        add(
          `${rival.name} store`,
          timed(() => rival.store(keys.words)),
        )
      stored += 1
    }
  }
  return ['kvtier', ...rivals.map((rival) => rival.name)].map((side) => ({
    chunks,
    index: side,
    hitNs: Math.round(times.get(`${side} hit`)!.at(FAST)),
    storeNs: Math.round(times.get(`${side} store`)!.at(FAST)),
    bytesPerChunk: Math.round(bytes.get(side)!),
  }))
}

const at = process.argv.indexOf('--sizes')
const sizes = at < 0 ? [10_000, 100_000, 1_000_000] : process.argv[at + 1]!.split(',').map(Number)
if (process.argv.includes('--full')) sizes.push(10_000_000)
measure(sizes[0]!) // compiles the code
const rows = sizes.flatMap(measure)
const of = (chunks: number, index: string) => rows.find((row) => row.chunks === chunks && row.index === index)!
const figures = sizes.flatMap((chunks): Figure[] =>
  ['typed-array LRU', 'lru-cache', 'Map'].flatMap((index) => {
    const [ours, other] = [of(chunks, 'kvtier'), of(chunks, index)]
    return [
      ratioFigure(`${chunks} chunks, hit to ${index}`, ours.hitNs / other.hitNs, 'lower'),
      ratioFigure(`${chunks} chunks, store to ${index}`, ours.storeNs / other.storeNs, 'lower'),
    ]
  }),
)
const mixed = (row: { hitNs: number; storeNs: number }) => row.hitNs + row.storeNs
const growth = (index: string) => mixed(of(sizes.at(-1)!, index)) / mixed(of(sizes[0]!, index))
const grown = growth('kvtier') / growth('typed-array LRU')
figures.push(
  ratioFigure('growth from the smallest size to the largest, to typed-array LRU', grown, 'lower', GROWTH_MAX),
)
printReport({ figures, rows })
