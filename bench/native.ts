import { crc32 as libraryCrc32 } from 'node:zlib'
import { ChunkHasher } from '../src/core/chunk-hash.ts'
import { loadAddon } from '../src/native/addon.ts'
import { openSegment } from '../src/native/shared-memory.ts'
import { MsgpackReader, type WordsMemory } from '../src/protocol/msgpack/reader.ts'
import { MsgpackWriter } from '../src/protocol/msgpack/writer.ts'
import { type Figure, printReport, ratioFigure } from './support/figures.ts'
import { runPairs, type Side } from './support/pairs.ts'

/**
 * Native code against what does the same work without it: hashes, token lists, checksums, copies.
 *
 * A call is a prompt of 32k tokens, a payload, or a batch of copies of 32 MiB within the shared-memory arena. The ratio
 * is of processor time, which other load of the machine hardly changes; copies on two threads are compared by the clock.
 */
const MIB = 1024 * 1024
const TOKENS = 32_768
const CHUNK_TOKENS = [16, 256, 1_024]
const SUMMED_KIB = [64, 1_024, 32_768]
const COPY_HALF_BYTES = 128 * MIB
const BATCH_BYTES = 32 * MIB
const COPIED_KIB = [32, 256, 1_024, 4_096]

interface Row {
  readonly work: string
  readonly without: string
  readonly native: string
  readonly ratio: number
}

const found = loadAddon()
if (typeof found === 'string') throw new Error(found)
const addon = found

function repeated(name: string, times: number, call: () => void): Side {
  return {
    name,
    run: () => {
      for (let time = 0; time < times; time += 1) call()
      return times
    },
  }
}

/** @param shown what a call is worth in the unit of the table, from its nanoseconds. */
async function row(
  work: string,
  times: number,
  shown: (ns: number) => string,
  without: () => void,
  native: () => void,
) {
  const pairs = await runPairs(repeated('without', times, without), repeated('native', times, native))
  const [a, b] = [pairs.a.cpuMedianNs, pairs.b.cpuMedianNs]
  return { work, without: shown(a), native: shown(b), ratio: Number((a / b).toFixed(2)) } satisfies Row
}

const us = (ns: number) => `${(ns / 1e3).toFixed(0)} us`
const rate = (bytes: number) => (ns: number) => `${(bytes / ns).toFixed(1)} GB/s`

async function hashes(): Promise<Row[]> {
  const tokens = Uint32Array.from({ length: TOKENS }, (_, index) => Math.imul(index, 0x9e37_79b1) >>> 15)
  const hasher = await ChunkHasher.create()
  const rows: Row[] = []
  for (const chunkTokens of CHUNK_TOKENS) {
    const out = new Uint8Array((TOKENS / chunkTokens) * 32)
    const without = () => hasher.hashRun(hasher.root, tokens, chunkTokens, out)
    const native = () => addon.hashChunks(hasher.root, tokens, chunkTokens, out)
    rows.push(await row(`hash 32k tokens, ${chunkTokens} a chunk`, 30, us, without, native))
  }
  return rows
}

async function lists(): Promise<Row[]> {
  const rows: Row[] = []
  for (const [name, shift] of [
    ['up to 131,071', 15],
    ['up to 1,023', 22],
  ] as const) {
    const tokens = Uint32Array.from({ length: TOKENS }, (_, index) => Math.imul(index, 0x9e37_79b1) >>> shift)
    const message = new MsgpackWriter().words(tokens).finish()
    const nothing: WordsMemory = { readWords: addon.readWords, find: () => null, add: () => {} }
    const without = () => void new MsgpackReader(message).words(TOKENS)
    const native = () => void new MsgpackReader(message).words(TOKENS, nothing)
    rows.push(await row(`read 32k token_ids ${name}`, 30, us, without, native))
  }
  return rows
}

async function sums(memory: Uint8Array): Promise<Row[]> {
  const rows: Row[] = []
  for (const kib of SUMMED_KIB) {
    const bytes = memory.subarray(0, kib * 1024)
    const without = () => void libraryCrc32(bytes, 0)
    const native = () => void addon.crc32(bytes, 0)
    const times = Math.max(1, Math.floor(32_768 / kib))
    rows.push(await row(`crc32 of ${kib} KiB`, times, rate(bytes.length), without, native))
  }
  return rows
}

/** Copies of one size from the lower half of the arena to the upper one, 32 MiB a call, each call elsewhere. */
async function copies(memory: Uint8Array): Promise<Row[]> {
  const rows: Row[] = []
  const [source, target] = [memory.subarray(0, COPY_HALF_BYTES), memory.subarray(COPY_HALF_BYTES)]
  for (const kib of COPIED_KIB) {
    const bytes = kib * 1024
    const count = BATCH_BYTES / bytes
    const offsets = new Float64Array(count)
    const lengths = new Float64Array(count).fill(bytes)
    let first = 0
    const place = () => {
      for (let at = 0; at < count; at += 1) offsets[at] = first + at * bytes
      first = (first + BATCH_BYTES) % COPY_HALF_BYTES
    }
    const without = () => {
      place()
      for (const from of offsets) target.set(source.subarray(from, from + bytes), from)
    }
    const native = (threads: number) => () => {
      place()
      addon.copyRanges(target, source, offsets, offsets, lengths, count, threads)
    }
    rows.push(await row(`copy ${count} x ${kib} KiB`, 4, rate(BATCH_BYTES), without, native(1)))
    const two = await runPairs(repeated('without', 4, without), repeated('two threads', 4, native(2)))
    const [a, b] = [rate(BATCH_BYTES)(two.a.medianNs), rate(BATCH_BYTES)(two.b.medianNs)]
    rows.push({
      work: `copy ${count} x ${kib} KiB, two threads, by the clock`,
      without: a,
      native: b,
      ratio: Number(two.ratio.toFixed(2)),
    })
  }
  return rows
}

async function main(): Promise<void> {
  const segment = await openSegment({ name: `kvtier-bench-${process.pid}`, bytes: 2 * COPY_HALF_BYTES })
  segment.unlink()
  segment.memory.fill(0x5a)
  const rows = [
    ...(await hashes()),
    ...(await lists()),
    ...(await sums(segment.memory)),
    ...(await copies(segment.memory)),
  ]
  segment.close()
  console.error(addon.processor())
  printReport({ figures: rows.map(figureOf), rows })
}

/** Copies of middling size are as fast either way, and a second thread needs processors that are idle: no claim. */
function figureOf({ work, ratio }: Row): Figure {
  const bound = work.startsWith('copy') ? undefined : 1
  return ratioFigure(`${work}, without to native`, ratio, 'higher', bound)
}

await main()
