import { ChunkHasher } from '../../src/core/chunk-hash.ts'
import { SystemClock } from '../../src/core/clock.ts'
import { ModelRegistry } from '../../src/engine/model-registry.ts'
import { PromptHasher } from '../../src/engine/prompt-hasher.ts'
import { MetricCells } from '../../src/metrics/cells.ts'
import { addonOrNull } from '../../src/native/addon.ts'
import { encodePayload } from '../../src/protocol/mp/client-codec.ts'
import type { KnownOp } from '../../src/protocol/mp/generations.ts'
import { Dispatcher } from '../../src/server/mp/dispatcher.ts'
import { InstanceTable } from '../../src/server/mp/instances.ts'
import { newCounts } from '../../src/server/mp/mp-counts.ts'
import { MpSessions } from '../../src/server/mp/mp-sessions.ts'
import { composeBenchEngine } from './bench-engine.ts'
import { opFrame } from './mp-peer.ts'
import {
  CHUNK_TOKENS,
  contextOf,
  KeyFrame,
  PROMPT_CHUNKS,
  promptOf,
  requestFrame,
  type TokenForm,
} from './mp-prompts.ts'
import { SampleSet } from './samples.ts'

const MIB = 1024 * 1024
const ARENA_BYTES = 256 * MIB
const INSTANCE = 2n ** 60n + 1n
const PEER = 'bench'
const UID = encodePayload.int(70_000)
const instance = encodePayload.int(INSTANCE)
const one = encodePayload.int(1)
const WARMUPS = 50

/** What one operation takes between its frames and the frames of its answer. */
interface ServerTime {
  readonly op: string
  readonly samples: number
  readonly p50Us: number
  readonly p99Us: number
  /** CPU time of the thread, the mean. */
  readonly cpuUs: number
}

/** A dispatcher and the engine below it, on this thread: prompts are hashed in place, and slots have no bytes. */
class ServerInPlace {
  readonly #dispatcher: Dispatcher
  readonly #runtime: ReturnType<typeof composeBenchEngine>
  readonly samples = new SampleSet()
  readonly cpuUs = new Map<string, number>()
  readonly #cells = MetricCells.create()
  #onAnswer: (payload: Uint8Array | null) => void = () => {}
  isCounting = false

  constructor(hasher: ChunkHasher) {
    const clock = new SystemClock()
    this.#runtime = composeBenchEngine({
      clock,
      cells: this.#cells,
      memory: null,
      arenaBytes: ARENA_BYTES,
      chunkTokens: CHUNK_TOKENS,
      hashInlineChunks: PROMPT_CHUNKS,
    })
    const { engine } = this.#runtime
    const prompts = new PromptHasher(hasher, [], { inlineChunks: PROMPT_CHUNKS })
    const parts = {
      engine,
      models: new ModelRegistry(8, ARENA_BYTES),
      sessions: new MpSessions(64, prompts, CHUNK_TOKENS),
      hasher: prompts,
      instances: new InstanceTable(8, engine.l1.copies, () => {}),
      heldBytesMax: ARENA_BYTES,
      clock,
      queryHoldMs: 0,
      counts: newCounts(),
      segments: [{ name: 'none', bytes: ARENA_BYTES, restoreName() {}, isOnlyOurs: () => false }],
      log: { info: () => {}, warn: (_detail: object, text: string) => fail(text) },
      journal: null,
    }
    const options = { clients: 8, silentMs: 120_000, graceMs: 3_600_000, allowsClear: false }
    this.#dispatcher = new Dispatcher(options, parts, (_peer, frames) => this.#onAnswer(frames[2] ?? null), fail)
  }

  /** Times a request from its frames to its answer, and lets what goes on behind the answer happen. */
  async ask(name: string, op: KnownOp, payload: readonly Uint8Array[]): Promise<Uint8Array | null> {
    this.#cells.bus.drain(65_536, () => {})
    const frames = [UID, opFrame(op), ...payload]
    let answeredMs = 0
    const answered = new Promise<Uint8Array | null>((resolve) => {
      this.#onAnswer = (answer) => {
        answeredMs = performance.now()
        resolve(answer)
      }
    })
    const cpuBefore = process.threadCpuUsage()
    const start = performance.now()
    this.#dispatcher.receive(PEER, frames)
    const answer = await answered
    const { user, system } = process.threadCpuUsage(cpuBefore)
    if (this.isCounting) {
      this.samples.push(name, answeredMs - start)
      this.cpuUs.set(name, (this.cpuUs.get(name) ?? 0) + user + system)
    }
    await new Promise<void>((resolve) => setImmediate(resolve))
    return answer
  }

  async register(): Promise<void> {
    await this.ask('', 'get_chunk_size', [])
    await this.ask('', 'register_kv_cache_engine_driven_context', [encodePayload.context(contextOf(INSTANCE))])
  }

  stop(): void {
    this.#runtime.stop()
  }
}

/** Server time of each operation of a cycle. @param rounds samples of each. */
export async function serverTimes(rounds: number): Promise<ServerTime[]> {
  const server = new ServerInPlace(await ChunkHasher.create(addonOrNull()?.hashChunks ?? null))
  await server.register()
  for (let round = -WARMUPS; round < rounds; round += 1) {
    server.isCounting = round >= 0
    await server.ask('ping', 'ping', [encodePayload.nil()])
    for (const form of ['token_ids', 'token_bytes'] as const) await cycle(server, form, round + WARMUPS)
  }
  server.stop()
  const us = (ms: number) => Number((ms * 1e3).toFixed(1))
  return server.samples.names.map((op) => {
    const samples = server.samples.of(op)
    const cpuUs = Number((server.cpuUs.get(op)! / samples.count).toFixed(1))
    return { op, samples: samples.count, p50Us: us(samples.at(0.5)), p99Us: us(samples.at(0.99)), cpuUs }
  })
}

/** Stores a new prompt, asks for it again and retrieves it. */
async function cycle(server: ServerInPlace, form: TokenForm, round: number): Promise<void> {
  const first = round * 2 + (form === 'token_ids' ? 0 : 1_000_000)
  const [scheduler, worker] = keysOf(form)
  for (const key of [scheduler, worker]) key.name(first).renew(first)
  const ask = (op: KnownOp, payload: readonly Uint8Array[]) => server.ask(`${op}, ${form}`, op, payload)
  await server.ask(`lookup acknowledged; CPU with hashing, ${form}`, 'lookup', [scheduler.bytes, one])
  await server.ask('query_prefetch_status', 'query_prefetch_status', [requestFrame(first)])
  const slots = await ask('prepare_store', [worker.bytes, instance])
  await ask('commit_store', [worker.bytes, instance, encodePayload.bytes(new Uint8Array(0))])
  await server.ask('end_session', 'end_session', [requestFrame(first)])
  for (const key of [scheduler, worker]) key.name(first + 1)
  await server.ask(`lookup acknowledged; CPU of all, ${form}`, 'lookup', [scheduler.bytes, one])
  const found = await server.ask('query_prefetch_status', 'query_prefetch_status', [requestFrame(first + 1)])
  await ask('prepare_retrieve', [worker.bytes, instance])
  await ask('commit_retrieve', [worker.bytes, instance])
  await server.ask('end_session', 'end_session', [requestFrame(first + 1)])
  if (slots!.length < PROMPT_CHUNKS || found![1] !== PROMPT_CHUNKS) fail('a prompt was not stored and found')
}

const keys = new Map<TokenForm, readonly [KeyFrame, KeyFrame]>()

function keysOf(form: TokenForm): readonly [KeyFrame, KeyFrame] {
  const tokens = promptOf(1, PROMPT_CHUNKS)
  const made = keys.get(form) ?? ([new KeyFrame(tokens, form, null), new KeyFrame(tokens, form, 0)] as const)
  keys.set(form, made)
  return made
}

function fail(error: unknown): never {
  throw error instanceof Error ? error : new Error(String(error))
}
