import { decodeReply, encodePayload, type StoreSlots } from '../../src/protocol/mp/client-codec.ts'
import type { KnownOp } from '../../src/protocol/mp/generations.ts'
import type { WireSlot } from '../../src/protocol/mp/messages.ts'
import { MpPeer, opFrame } from './mp-peer.ts'
import { CHUNK_TOKENS, contextOf, KeyFrame, MODEL, promptOf, requestFrame } from './mp-prompts.ts'

const FIRST_INSTANCE = 2n ** 60n + 9n
const one = encodePayload.int(1)
const nil = encodePayload.nil()
const noData = encodePayload.bytes(new Uint8Array(0))
/** Prompts of one length share their tokens but the first, which names them. */
const SEED = 7

/** Frames of one client for prompts of one length. Two servers get the very same ones, in turn. */
export interface PromptFrames {
  readonly chunks: number
  readonly lookup: KeyFrame
  readonly transfer: KeyFrame
}

export function framesOf(chunks: number, model = MODEL): PromptFrames {
  const tokens = promptOf(SEED, chunks)
  const key = (workerId: number | null) => new KeyFrame(tokens, 'token_ids', workerId, model)
  return { chunks, lookup: key(null), transfer: key(0) }
}

/** Told what a step took, in milliseconds. */
export type OnStep = (what: string, ms: number) => void

let requests = 0

/**
 * What a scheduler and a worker of an inference server ask, step by step, each after the answer of the one before. It
 * looks at answers: a wrong one ends the bench. `serial` names a prompt.
 */
export class RivalClient {
  readonly #peer: MpPeer
  #instance = encodePayload.int(FIRST_INSTANCE)

  constructor(address: string) {
    this.#peer = new MpPeer(address)
  }

  /** The first frames of a client, and of a worker of a model. @returns the segment. @param hidden x 1 KiB a chunk. */
  async greet(hidden = 4, model = MODEL): Promise<{ name: string; bytes: number }> {
    const instance = FIRST_INSTANCE + BigInt(hidden)
    this.#instance = encodePayload.int(instance)
    const tokens = decodeReply.int((await this.#ask('get_chunk_size', []))!)
    if (tokens !== CHUNK_TOKENS) throw new Error(`chunks of ${tokens} tokens`)
    const payload = encodePayload.context(contextOf(instance, model, hidden))
    return decodeReply.segment((await this.#ask('register_kv_cache_engine_driven_context', [payload]))!)!
  }

  async ping(): Promise<void> {
    const answer = await this.#ask('ping', [nil])
    if (answer?.[0] !== 0xc3) throw new Error('a ping was not answered with true')
  }

  /** Asks for a prompt, and gives back what was promised of it. */
  async lookup(frames: PromptFrames, serial: number, isHit: boolean, onStep?: OnStep): Promise<void> {
    const request = this.#name(frames, serial)
    const start = performance.now()
    await this.#ask('lookup', [frames.lookup.bytes, one])
    onStep?.('acknowledged', performance.now() - start)
    const found = await this.#answer(request)
    onStep?.('answered', performance.now() - start)
    if (found !== (isHit ? frames.chunks : 0)) throw new Error(`${found} chunks of a prompt were found`)
    if (isHit) await this.#ask('free_lookup_locks', [frames.lookup.bytes, one])
    await this.#ask('end_session', [request])
  }

  /** Stores a new prompt. @param write fills the slots. */
  async store(
    frames: PromptFrames,
    serial: number,
    onStep?: OnStep,
    write?: (slots: readonly WireSlot[]) => void,
  ): Promise<void> {
    const request = this.#name(frames, serial)
    const start = performance.now()
    const granted = (await this.#ask('prepare_store', [frames.transfer.bytes, this.#instance]))!
    const prepared = performance.now()
    onStep?.('prepare_store', prepared - start)
    const { slots } = write === undefined ? NO_SLOTS : decodeReply.store(granted)!
    write?.(slots)
    const filled = performance.now()
    const isStored = await this.#ask('commit_store', [frames.transfer.bytes, this.#instance, noData])
    onStep?.('commit_store', performance.now() - filled)
    onStep?.('stored', performance.now() - start)
    if (isStored?.[0] !== 0xc3 || granted.length < frames.chunks) throw new Error('a new prompt was not stored')
    await this.#ask('end_session', [request])
  }

  /** Asks for a resident prompt and retrieves it. @param read takes the bytes out of the slots. */
  async retrieve(
    frames: PromptFrames,
    serial: number,
    onStep?: OnStep,
    read?: (slots: readonly WireSlot[]) => void,
  ): Promise<void> {
    const request = this.#name(frames, serial)
    await this.#ask('lookup', [frames.lookup.bytes, one])
    const found = await this.#answer(request)
    if (found !== frames.chunks) throw new Error(`${found} chunks of a resident prompt were found`)
    const start = performance.now()
    const granted = (await this.#ask('prepare_retrieve', [frames.transfer.bytes, this.#instance]))!
    onStep?.('prepare_retrieve', performance.now() - start)
    if (read !== undefined) {
      const slots = decodeReply.retrieve(granted)
      if (slots?.length !== frames.chunks) throw new Error('a resident prompt was not served')
      read(slots)
    }
    const copied = performance.now()
    const isServed = await this.#ask('commit_retrieve', [frames.transfer.bytes, this.#instance])
    onStep?.('commit_retrieve', performance.now() - copied)
    onStep?.('retrieved', performance.now() - start)
    if (isServed?.[0] !== 0xc3) throw new Error('a retrieval was not served to its end')
    await this.#ask('end_session', [request])
  }

  /** Asks the server to forget everything; ours does so with `--mp-allow-clear`. */
  async clear(): Promise<void> {
    await this.#ask('clear', [Uint8Array.of(0xc3)])
  }

  close(): void {
    this.#peer.close()
  }

  /** Polls until there is an answer, as schedulers do. @returns chunks. */
  async #answer(request: Uint8Array): Promise<number> {
    for (;;) {
      const answer = await this.#ask('query_prefetch_status', [request])
      if (answer !== null) return decodeReply.int(answer)!
    }
  }

  #name({ lookup, transfer }: PromptFrames, serial: number): Uint8Array {
    requests += 1
    for (const key of [lookup, transfer]) key.name(requests).renew(serial)
    return requestFrame(requests)
  }

  #ask(op: KnownOp, payload: readonly Uint8Array[]): Promise<Buffer | null> {
    return this.#peer.ask(opFrame(op), payload)
  }
}

const NO_SLOTS: StoreSlots = { slots: [], chunkIndices: [] }
