import { encodePayload } from '../../src/protocol/mp/client-codec.ts'
import type { KnownOp } from '../../src/protocol/mp/generations.ts'
import { MpPeer, opFrame } from './mp-peer.ts'
import { contextOf, KeyFrame, PROMPT_CHUNKS, promptOf, requestFrame, type TokenForm } from './mp-prompts.ts'
import type { SampleSet } from './samples.ts'

const INSTANCE = 2n ** 60n + 1n
const RESIDENT_PROMPT = 1
const instance = encodePayload.int(INSTANCE)
const one = encodePayload.int(1)
const nil = encodePayload.nil()
const noData = encodePayload.bytes(new Uint8Array(0))
const NO_PAYLOAD = 0xffff_ffff

/** Bytes of the engine's answers, by operation: the floor gives answers of the same sizes. */
export type AnswerBytes = Map<KnownOp, number>

interface Keys {
  readonly lookup: KeyFrame
  readonly transfer: KeyFrame
}

let serials = 0

/**
 * What a scheduler and a worker ask about one prompt of 32k tokens, on one socket, each step after the answer of the
 * one before. Of an engine, or of the floor, where the same frames get answers of the same size.
 */
export class MpCycles {
  readonly peer: MpPeer
  readonly #isFloor: boolean
  readonly #bytes: AnswerBytes
  readonly #tokens = promptOf(RESIDENT_PROMPT, PROMPT_CHUNKS)
  readonly #free: Record<TokenForm, Keys[]> = { token_ids: [], token_bytes: [] }

  constructor(address: string, isFloor: boolean, bytes: AnswerBytes) {
    this.peer = new MpPeer(address)
    this.#isFloor = isFloor
    this.#bytes = bytes
  }

  /** Registers a worker and stores the prompt that later hits. */
  async prepare(): Promise<void> {
    const context = encodePayload.context(contextOf(INSTANCE))
    await this.#ask('get_chunk_size', [])
    await this.#ask('register_kv_cache_engine_driven_context', [context])
    await this.#store('token_bytes', null, false)
  }

  async ping(samples: SampleSet | null): Promise<void> {
    const start = performance.now()
    await this.#ask('ping', [nil])
    samples?.push('ping', performance.now() - start)
  }

  /** Asks for the resident prompt, retrieves it and ends. Samples are named by `suffix` too. */
  async hit(form: TokenForm, samples: SampleSet | null, suffix = ''): Promise<void> {
    const keys = this.#take(form)
    const serial = this.#name(keys)
    const start = performance.now()
    await this.#ask('lookup', [keys.lookup.bytes, one])
    samples?.push(`lookup acknowledged${suffix}`, performance.now() - start)
    const found = await this.#answer(serial)
    samples?.push(`lookup answer ready${suffix}`, performance.now() - start)
    if (found !== PROMPT_CHUNKS && !this.#isFloor) throw new Error(`${found} chunks of the resident prompt were found`)
    await this.#timed('prepare_retrieve', [keys.transfer.bytes, instance], samples, suffix)
    await this.#timed('commit_retrieve', [keys.transfer.bytes, instance], samples, suffix)
    await this.#ask('end_session', [requestFrame(serial)])
    this.#free[form].push(keys)
  }

  /** Asks for a new prompt, which is not there, stores it and ends. */
  store(form: TokenForm, samples: SampleSet | null, suffix = ''): Promise<void> {
    return this.#store(form, samples, true, suffix)
  }

  async #store(form: TokenForm, samples: SampleSet | null, isNew: boolean, suffix = ''): Promise<void> {
    const keys = isNew ? this.#take(form) : this.#make(form)
    const serial = this.#name(keys)
    if (isNew) for (const key of [keys.lookup, keys.transfer]) key.renew(serial)
    await this.#ask('lookup', [keys.lookup.bytes, one])
    await this.#answer(serial)
    const slots = await this.#timed('prepare_store', [keys.transfer.bytes, instance], samples, suffix)
    await this.#timed('commit_store', [keys.transfer.bytes, instance, noData], samples, suffix)
    await this.#ask('end_session', [requestFrame(serial)])
    if (!this.#isFloor && (slots?.length ?? 0) < PROMPT_CHUNKS) throw new Error('a new prompt got no slots')
    // Keys of new prompts are not those of the resident one any more: dropped.
  }

  /** Polls until there is an answer. @returns chunks. */
  async #answer(serial: number): Promise<number> {
    const request = requestFrame(serial)
    for (;;) {
      const answer = await this.#ask('query_prefetch_status', [request])
      if (answer !== null) return answer[0] === 0xcc ? answer[1]! : answer[0]!
    }
  }

  async #timed(op: KnownOp, payload: readonly Uint8Array[], samples: SampleSet | null, suffix: string) {
    const start = performance.now()
    const answer = await this.#ask(op, payload)
    samples?.push(`${op}${suffix}`, performance.now() - start)
    return answer
  }

  async #ask(op: KnownOp, payload: readonly Uint8Array[]): Promise<Buffer | null> {
    if (this.#isFloor) return this.peer.ask(sizeFrame(this.#bytes.get(op) ?? NO_PAYLOAD), payload)
    const answer = await this.peer.ask(opFrame(op), payload)
    if (answer !== null) this.#bytes.set(op, answer.length)
    return answer
  }

  #take(form: TokenForm): Keys {
    return this.#free[form].pop() ?? this.#make(form)
  }

  #make(form: TokenForm): Keys {
    return { lookup: new KeyFrame(this.#tokens, form, null), transfer: new KeyFrame(this.#tokens, form, 0) }
  }

  #name({ lookup, transfer }: Keys): number {
    serials += 1
    lookup.name(serials)
    transfer.name(serials)
    return serials
  }
}

function sizeFrame(bytes: number): Uint8Array {
  const frame = Buffer.alloc(5)
  frame[0] = 0xce
  frame.writeUInt32BE(bytes, 1)
  return frame
}
