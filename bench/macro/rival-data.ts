import { setTimeout as pause } from 'node:timers/promises'
import { openSegment } from '../../src/native/shared-memory.ts'
import type { WireSlot } from '../../src/protocol/mp/messages.ts'
import { EngineHome } from '../../test/support/engine-process.ts'
import { hasProgram, RedisServer } from '../../test/support/redis-server.ts'
import { cpuMsOf } from '../support/child.ts'
import { type Figure, printReport, ratioFigure } from '../support/figures.ts'
import { mapSegment } from '../support/mapped-file.ts'
import { OriginalServer } from '../support/original-server.ts'
import { median } from '../support/pairs.ts'
import { RawResp } from '../support/raw-resp.ts'
import { framesOf, type PromptFrames, RivalClient } from '../support/rival-client.ts'

/**
 * Bytes in and out of L1, the client's copy included: chunks of 2, 8 and 32 MiB, 128 MiB a request.
 *
 *     kvtier, original   prepare, copy into or out of the slots, commit: over the MP wire and through shared memory
 *     memcpy             the same copies between the same kinds of memory, and nothing else: the limit
 *     redis              the same bytes in values of 1 MiB, 8 under way, by a bare socket
 *
 * All in turn, --pairs times (8), with a pause before each, in which our engine sums what was stored, and after
 * which every side has the same claim to a processor. Other load on the
 * machine only adds time, so ratios are between the fastest of each side; medians stand in the table. What is read back
 * is compared. Servers and client have done --warmups prompts (2,000) of one chunk of the model before, as in service:
 * one that has just started runs code that is not compiled yet. Words: --json, --pairs N, --warmups N, --no-original.
 */
const MIB = 1024 * 1024
const REQUEST_BYTES = 128 * MIB
const SIZES_MIB = [2, 8, 32]
const ARENA_BYTES = 1536 * MIB
const TARGET = 0.9
/** Of the sizes that the target is for. */
const TARGET_MIN_MIB = 8
const REDIS_DEPTH = 8
const WARMUPS = 2
const PAUSE_MS = 25
/** As many as fit: the original refuses a prompt for which it would have to evict, and compiles nothing as it runs. */
const ORIGINAL_WARMUPS = 40
/** For what a server does behind its answers. */
const WARM_PAUSE_MS = 500

type Direction = 'store' | 'retrieve'
/** Takes `client` in or out, and says how long that took, in milliseconds. */
type Move = (direction: Direction, serial: number) => Promise<number>

const client = new Uint8Array(REQUEST_BYTES)
const pairs = numberAfter('--pairs') ?? 8
const warmups = numberAfter('--warmups') ?? 2000

function numberAfter(word: string): number | undefined {
  const at = process.argv.indexOf(word)
  return at < 0 ? undefined : Number(process.argv[at + 1])
}

function fillClient(serial: number): void {
  for (let offset = 0; offset < client.length; offset += 4096) client[offset] = (serial + (offset >> 12)) & 0xff
}

function checkClient(serial: number): void {
  for (let offset = 0; offset < client.length; offset += 4096) {
    if (client[offset] !== ((serial + (offset >> 12)) & 0xff)) throw new Error('other bytes came back')
  }
}

function partOf(index: number, { length }: { readonly length: number }): Uint8Array {
  return client.subarray(index * length, (index + 1) * length)
}

async function overWire(address: string, model: string, hidden: number, frames: PromptFrames) {
  const peer = new RivalClient(address)
  const memory = mapSegment(await peer.greet(hidden, model))
  const slotOf = ({ offset, length }: WireSlot) => memory.subarray(offset, offset + length)
  const move: Move = async (direction, serial) => {
    let took = 0
    const onStep = (what: string, ms: number) => {
      if (what === 'stored' || what === 'retrieved') took = ms
    }
    if (direction === 'store') {
      await peer.store(frames, serial, onStep, (slots) => {
        for (const [index, slot] of slots.entries()) slotOf(slot).set(partOf(index, slot))
      })
    } else {
      await peer.retrieve(frames, serial, onStep, (slots) => {
        for (const [index, slot] of slots.entries()) partOf(index, slot).set(slotOf(slot))
      })
    }
    return took
  }
  return { peer, move }
}

/** Has a server and this client do what is timed later, with prompts of one chunk, and without the copy. */
async function warmUp(peer: RivalClient, model: string, prompts: number): Promise<void> {
  const frames = framesOf(1, model)
  for (let serial = 0; serial < prompts; serial += 1) {
    await peer.store(frames, serial)
    await peer.retrieve(frames, serial)
  }
  await peer.clear()
  await pause(WARM_PAUSE_MS)
}

/** Copies between the client's memory and an arena, chunk by chunk, each request at another place of the arena. */
function memcpy(arena: Uint8Array, chunkBytes: number): Move {
  return async (direction, serial) => {
    const base = (serial * REQUEST_BYTES) % arena.length
    const start = performance.now()
    for (let offset = 0; offset < REQUEST_BYTES; offset += chunkBytes) {
      const slot = arena.subarray(base + offset, base + offset + chunkBytes)
      const part = client.subarray(offset, offset + chunkBytes)
      if (direction === 'store') slot.set(part)
      else part.set(slot)
    }
    return performance.now() - start
  }
}

function redisMove(redis: RawResp): Move {
  const names = (serial: number) => Array.from({ length: REQUEST_BYTES / MIB }, (_, at) => `bench:${serial}:${at}`)
  const values = names(0).map((_, at) => client.subarray(at * MIB, (at + 1) * MIB))
  return async (direction, serial) => {
    const start = performance.now()
    if (direction === 'store') await redis.set(names(serial), values)
    else await redis.get(names(serial), MIB)
    const took = performance.now() - start
    if (direction === 'retrieve') await redis.delete(names(serial))
    return took
  }
}

/** CPU time of the client and of a server until now, in milliseconds. */
function cpuOf(server: number | undefined): number {
  return cpuMsOf(process.pid) + (server === undefined ? 0 : cpuMsOf(server))
}

/** Every side stores and retrieves one prompt, in an order that changes from pair to pair. */
async function turn(
  moves: ReadonlyMap<string, Move>,
  pids: ReadonlyMap<string, number>,
  serial: number,
  into: Map<string, number[]> | null,
) {
  const sides = [...moves]
  for (let first = 0; first < sides.length; first += 1) {
    const [name, move] = sides[(first + serial) % sides.length]!
    for (const direction of ['store', 'retrieve'] as const) {
      if (direction === 'store') fillClient(serial)
      else if (name !== 'redis') client.fill(0)
      await pause(PAUSE_MS)
      const cpuBefore = cpuOf(pids.get(name))
      const took = await move(direction, serial)
      const cpu = cpuOf(pids.get(name)) - cpuBefore
      if (direction === 'retrieve' && name !== 'redis') checkClient(serial)
      const key = `${name} ${direction}`
      if (into !== null) {
        into.set(key, [...(into.get(key) ?? []), took])
        into.set(`${key} CPU`, [...(into.get(`${key} CPU`) ?? []), cpu])
      }
    }
  }
}

function sumOf(values: readonly number[]): number {
  return values.reduce((sum, one) => sum + one, 0)
}

function rowsOf(sizeMib: number, names: readonly string[], times: ReadonlyMap<string, readonly number[]>) {
  const rows: object[] = []
  const figures: Figure[] = []
  for (const direction of ['store', 'retrieve'] as const) {
    const of = (name: string) => times.get(`${name} ${direction}`)!
    const rateOf = (ms: number) => Number((REQUEST_BYTES / 1e6 / ms).toFixed(2))
    const rate = (name: string) => `${rateOf(Math.min(...of(name)))} (${rateOf(median(of(name)))})`
    rows.push({
      direction,
      chunkMib: sizeMib,
      ...Object.fromEntries(names.map((name) => [`${name} GB/s (median)`, rate(name)])),
    })
    for (const other of names.filter((name) => name !== 'kvtier')) {
      const ratio = Math.min(...of(other)) / Math.min(...of('kvtier'))
      const bound = other !== 'memcpy' ? 1 : sizeMib >= TARGET_MIN_MIB ? TARGET : undefined
      const what = `${direction} of ${sizeMib} MiB chunks`
      figures.push(ratioFigure(`${what}, rate to ${other}`, ratio, 'higher', bound))
      if (other === 'redis') continue
      const work = sumOf(times.get(`${other} ${direction} CPU`)!) / sumOf(times.get(`kvtier ${direction} CPU`)!)
      figures.push(ratioFigure(`${what}, work per CPU second to ${other}`, work, 'higher'))
    }
  }
  return { rows, figures }
}

const home = new EngineHome()
const server = process.argv.includes('--no-original') ? null : await OriginalServer.start(ARENA_BYTES / 1024 ** 3)
const redis = hasProgram('redis-server') ? await RedisServer.start() : null
const arena = await openSegment({ name: `kvtier-bench-${process.pid}`, bytes: ARENA_BYTES / 2 })
arena.unlink()
try {
  const { addresses } = await home.start({
    l1Size: `${ARENA_BYTES / MIB}MiB`,
    flags: ['--l2', 'none', '--mp-allow-clear', 'true'],
  })
  const rows: object[] = []
  const figures: Figure[] = []
  for (const sizeMib of SIZES_MIB) {
    const model = `bench-${sizeMib}`
    const frames = framesOf(REQUEST_BYTES / (sizeMib * MIB), model)
    const moves = new Map<string, Move>()
    const ours = await overWire(addresses.mp!, model, sizeMib * 1024, frames)
    const original = server === null ? null : await overWire(server.address, model, sizeMib * 1024, frames)
    moves.set('kvtier', ours.move).set('memcpy', memcpy(arena.memory, sizeMib * MIB))
    const resp = redis === null ? null : await RawResp.open(redis.port, REDIS_DEPTH, client)
    if (resp !== null) moves.set('redis', redisMove(resp))
    if (original !== null) moves.set('original', original.move)
    await warmUp(ours.peer, model, warmups)
    if (original !== null) await warmUp(original.peer, model, Math.min(warmups, ORIGINAL_WARMUPS))
    const times = new Map<string, number[]>()
    const pids = new Map([['kvtier', addresses.pid]])
    if (server !== null) pids.set('original', server.pid)
    for (let pair = 0; pair < pairs + WARMUPS; pair += 1) await turn(moves, pids, pair, pair < WARMUPS ? null : times)
    const made = rowsOf(sizeMib, [...moves.keys()], times)
    rows.push(...made.rows)
    figures.push(...made.figures)
    for (const side of [ours, original]) await side?.peer.clear()
    for (const side of [ours, original]) side?.peer.close()
    resp?.close()
  }
  printReport({ figures, rows })
} finally {
  await server?.stop()
  await redis?.stop()
  arena.close()
  await home.remove()
}
