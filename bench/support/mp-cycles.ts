import { encodePayload } from '../../src/protocol/mp/client-codec.ts'
import type { KnownOp } from '../../src/protocol/mp/generations.ts'
import { NO_PAYLOAD } from './mp-echo-payload.ts'
import { MpPeer, opFrame } from './mp-peer.ts'
import { contextOf, KeyFrame, PROMPT_CHUNKS, promptOf, requestFrame, type TokenForm } from './mp-prompts.ts'
import type { SampleSet } from './samples.ts'

const INSTANCE = 2n ** 60n + 1n
const instance = encodePayload.int(INSTANCE)
const one = encodePayload.int(1)
const nil = encodePayload.nil()
const noData = encodePayload.bytes(new Uint8Array(0))
/** As an answer. */
const TRUE = 0xc3

/** Bytes of the engine's answers, by operation: the floor gives answers of the same sizes. */
export type AnswerBytes = Map<KnownOp, number>

/**
 * Prompts that L1 has. More than the engine remembers the tokens or the hashes of: when they take turns, each is read and
 * hashed anew.
 */
const RESIDENT_PROMPTS = 640
/** One of them is asked for again and again. */
const KNOWN_PROMPT = 0

interface Keys {
  readonly lookup: KeyFrame
  readonly transfer: KeyFrame
}

export interface HitOptions {
  /** Behind the names of samples. */
  readonly suffix?: string
  /** When the lookup was due; default: now. */
  readonly due?: number
  /** The prompt that was asked for before, instead of each in turn. */
  readonly isKnown?: boolean
}

let requests = 0
let hits = 0

/**
 * What a scheduler and a worker ask about one prompt of 32k tokens, on one socket, each step after the answer of the
 * one before. Of an engine, or of the floor, where the same frames get answers of the same size.
 */
export class MpCycles {
  readonly peer: MpPeer
  readonly #isFloor: boolean
  readonly #bytes: AnswerBytes
  readonly #tokens = promptOf(1, PROMPT_CHUNKS)
  readonly #free: Record<TokenForm, Keys[]> = { token_ids: [], token_bytes: [] }

  constructor(address: string, isFloor: boolean, bytes: AnswerBytes) {
    this.peer = new MpPeer(address)
    this.#isFloor = isFloor
    this.#bytes = bytes
  }

  /** Registers a worker. */
  async register(): Promise<void> {
    await this.#ask('get_chunk_size', [])
    await this.#ask('register_kv_cache_engine_driven_context', [encodePayload.context(contextOf(INSTANCE))])
  }

  /** Stores those of the prompts that shall hit that L1 has not, or not any more. */
  async makeResident(): Promise<void> {
    for (let prompt = 0; prompt < RESIDENT_PROMPTS; prompt += 1)
      await this.#store('token_bytes', prompt, null, '', false)
  }

  /** @param due when it was to be sent. */
  async ping(samples: SampleSet | null, due = performance.now()): Promise<void> {
    await this.#ask('ping', [nil])
    samples?.push('ping', performance.now() - due)
  }

  /** Asks for a resident prompt, retrieves it and ends. */
  async hit(form: TokenForm, samples: SampleSet | null, options: HitOptions = {}): Promise<void> {
    const { suffix = '', due = performance.now(), isKnown = false } = options
    hits += 1
    const prompt = isKnown ? KNOWN_PROMPT : hits % RESIDENT_PROMPTS
    const { keys, request } = this.#take(form, prompt)
    await this.#ask('lookup', [keys.lookup.bytes, one])
    samples?.push(`lookup acknowledged${suffix}`, performance.now() - due)
    const found = await this.#answer(request)
    samples?.push(`lookup answer ready${suffix}`, performance.now() - due)
    if (found !== PROMPT_CHUNKS && !this.#isFloor) throw new Error(`${found} chunks of a resident prompt were found`)
    await this.#timed('prepare_retrieve', [keys.transfer.bytes, instance], samples, suffix)
    const isServed = await this.#timed('commit_retrieve', [keys.transfer.bytes, instance], samples, suffix)
    if (isServed?.[0] !== TRUE && !this.#isFloor) throw new Error('a retrieval was not served to its end')
    await this.#ask('end_session', [request])
    this.#free[form].push(keys)
  }

  /** Asks for a new prompt, which is not there, stores it and ends. */
  store(form: TokenForm, samples: SampleSet | null, suffix = ''): Promise<void> {
    return this.#store(form, RESIDENT_PROMPTS + requests, samples, suffix, true)
  }

  async #store(form: TokenForm, prompt: number, samples: SampleSet | null, suffix: string, isNew: boolean) {
    const { keys, request } = this.#take(form, prompt)
    await this.#ask('lookup', [keys.lookup.bytes, one])
    const found = await this.#answer(request)
    if (found === PROMPT_CHUNKS && !isNew) {
      await this.#ask('end_session', [request])
      this.#free[form].push(keys)
      return
    }
    const slots = await this.#timed('prepare_store', [keys.transfer.bytes, instance], samples, suffix)
    const isStored = await this.#timed('commit_store', [keys.transfer.bytes, instance, noData], samples, suffix)
    await this.#ask('end_session', [request])
    const isGood = (slots?.length ?? 0) > PROMPT_CHUNKS && isStored?.[0] === TRUE
    if (!this.#isFloor && !isGood) throw new Error('a new prompt was not stored')
    this.#free[form].push(keys)
  }

  /** Polls until there is an answer. @returns chunks. */
  async #answer(request: Uint8Array): Promise<number> {
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

  /** The frames of a new request about a prompt. */
  #take(form: TokenForm, prompt: number): { keys: Keys; request: Uint8Array } {
    const make = (workerId: number | null) => new KeyFrame(this.#tokens, form, workerId)
    const keys = this.#free[form].pop() ?? { lookup: make(null), transfer: make(0) }
    requests += 1
    for (const key of [keys.lookup, keys.transfer]) key.name(requests).renew(prompt)
    return { keys, request: requestFrame(requests) }
  }
}

function sizeFrame(bytes: number): Uint8Array {
  const frame = Buffer.alloc(5)
  frame[0] = 0xce
  frame.writeUInt32BE(bytes, 1)
  return frame
}
