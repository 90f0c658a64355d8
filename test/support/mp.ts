import { expect } from 'vitest'
import { MpClient } from '../../src/client/mp-client.ts'
import { ChunkHasher } from '../../src/core/chunk-hash.ts'
import { SystemClock } from '../../src/core/clock.ts'
import type { HashLane } from '../../src/engine/hash-queue.ts'
import { ModelRegistry } from '../../src/engine/model-registry.ts'
import { PromptHasher } from '../../src/engine/prompt-hasher.ts'
import type { WireContext, WireKey, WireSlot } from '../../src/protocol/mp/messages.ts'
import { MpServer } from '../../src/server/mp/mp-server.ts'
import type { WireSegment } from '../../src/server/mp/parts.ts'
import type { MpOptions } from '../../src/server/options.ts'
import { checkLaws } from './conservation-laws.ts'
import { type EngineSetup, makeEngine } from './engine.ts'

export const MP_OPTIONS: MpOptions = {
  host: '127.0.0.1',
  port: 0,
  clientsMax: 64,
  silentMs: 120_000,
  graceMs: 3_600_000,
  heldRatioMax: 0.5,
  allowClear: false,
}

/** Tokens of one chunk of `makeEngine`. */
export const CHUNK = 16
/** Bytes of one shard of `contextOf`. */
export const SHARD_BYTES = 2 * 1 * CHUNK * 16 * 2

const hasher = await ChunkHasher.create()

export interface MpSetup extends Partial<EngineSetup> {
  /** Default: 0. The clock is the test's. */
  readonly queryHoldMs?: number
  readonly mp?: Partial<MpOptions>
  /** Where prompts of more than `inlineChunks` are hashed. */
  readonly lane?: HashLane
  readonly inlineChunks?: number
  /** Whether no other process has the segment open; false by default. */
  readonly isOnlyOurs?: () => boolean
  /** By part of L1; absent = one. */
  readonly segments?: readonly WireSegment[]
  readonly onGone?: (worker: object) => void
}

/** An engine in this process that serves the MP wire on a real socket, on a manual clock. */
export async function startMp({
  mp = {},
  lane,
  inlineChunks = 64,
  queryHoldMs = 0,
  isOnlyOurs = () => false,
  segments,
  onGone,
  ...setup
}: MpSetup = {}) {
  const runtime = makeEngine({ seed: 1, ...setup })
  const { engine, memory, clock } = runtime
  const lines: string[] = []
  const log = { info: () => {}, warn: (_detail: object, text: string) => void lines.push(text) }
  const errors: unknown[] = []
  const prompts = new PromptHasher(hasher, lane === undefined ? [] : [lane], { inlineChunks })
  const server = new MpServer(
    { ...MP_OPTIONS, ...mp },
    {
      engine,
      models: new ModelRegistry(16, memory!.length),
      hasher: prompts,
      clock,
      queryHoldMs,
      segments: segments ?? [{ name: 'kvtier-test', bytes: memory!.length, restoreName() {}, isOnlyOurs }],
      onGone,
      log,
      onError: (error) => errors.push(error),
    },
  )
  runtime.onSweep(() => server.sweep())
  const address = await server.listen()
  runtime.start()
  const clients: MpClient[] = []
  return {
    ...runtime,
    memory: memory!,
    server,
    prompts,
    address,
    lines,
    bugs: errors,
    connect: (options: Partial<ConstructorParameters<typeof MpClient>[1]> = {}) => {
      const client = new MpClient(address, { clock: new SystemClock(), timeoutMs: 5_000, ...options })
      clients.push(client)
      return client
    },
    close: () => {
      for (const client of clients) client.close()
      server.close()
      runtime.stop()
    },
  }
}

export type Mp = Awaited<ReturnType<typeof startMp>>

/** Ends an engine of a test: every law holds, and nothing that only a bug can cause was seen. */
export function closeSound(mp: Mp): void {
  checkLaws(mp.engine)
  expect(mp.bugs).toEqual([])
  expect(mp.errors).toEqual([])
  mp.close()
}

export function contextOf(instanceId: bigint, more: Partial<WireContext> = {}): WireContext {
  const base = {
    model: 'm',
    worldSize: 1,
    blockTokens: 4,
    layers: 1,
    hidden: 16,
    dtype: 'float16',
    isMla: false,
    slots: null,
    groups: 0,
  }
  return { instanceId, ...base, ...more }
}

/** A key over the whole chunks of a prompt. */
export function keyOf(tokens: Uint32Array, more: Partial<WireKey> = {}): WireKey {
  const end = Math.floor(tokens.length / CHUNK) * CHUNK
  const base = { model: 'm', salt: '', worldSize: 1, workerId: 0, tokens, start: 0, end, requestId: 'r', readers: 1 }
  return { ...base, ...more }
}

/** A prompt of so many whole chunks, named by a number. */
export function promptOf(name: number, chunks: number): Uint32Array {
  return Uint32Array.from({ length: chunks * CHUNK }, (_, index) => name * 100_000 + index)
}

/** Fills slots with bytes that tell prompt, rank and chunk. */
export function fill(memory: Uint8Array, slots: readonly WireSlot[], chunks: readonly number[], name: number): void {
  for (const [row, { offset, length }] of slots.entries()) {
    for (let at = 0; at < length; at += 1) memory[offset + at] = byteOf(name, chunks[row]!, at)
  }
}

/** Whether slots hold what `fill` wrote for these chunks. */
export function holds(memory: Uint8Array, slots: readonly WireSlot[], firstChunk: number, name: number): boolean {
  return slots.every(({ offset, length }, row) => {
    for (let at = 0; at < length; at += 1) if (memory[offset + at] !== byteOf(name, firstChunk + row, at)) return false
    return true
  })
}

function byteOf(name: number, chunk: number, at: number): number {
  return (name * 31 + chunk * 7 + at * 3 + (at >> 8)) & 255
}

/** Stores a prompt as a worker does. @returns the chunks it wrote. */
export async function storePrompt(mp: Mp, worker: MpClient, key: WireKey, instanceId: bigint, name: number) {
  const { slots, chunkIndices } = await worker.prepareStore(key, instanceId)
  const first = key.start / CHUNK
  fill(
    mp.memory,
    slots,
    chunkIndices.map((index) => first + index),
    name,
  )
  if (slots.length > 0 && !(await worker.commitStore(key, instanceId))) throw new Error('the store was not taken')
  return chunkIndices
}

/** Asks and waits, as a scheduler does. @returns chunks found. */
export async function found(scheduler: MpClient, key: WireKey, tensorParallel?: number): Promise<number> {
  await scheduler.lookup({ ...key, workerId: null }, tensorParallel)
  for (;;) {
    const chunks = await scheduler.answer(key.requestId)
    if (chunks !== null) return chunks
    await new Promise<void>((resolve) => setImmediate(resolve))
  }
}
