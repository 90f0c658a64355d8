import { encodePayload } from '../../src/protocol/mp/client-codec.ts'
import type { WireContext, WireKey } from '../../src/protocol/mp/messages.ts'

export const CHUNK_TOKENS = 256
/** 32k tokens. */
export const PROMPT_CHUNKS = 128
export const MODEL = 'bench'
export type TokenForm = 'token_ids' | 'token_bytes'

const VOCABULARY = 151_936
const REQUEST_ID = 'r0000000'

/** A worker of a model with small shards, by default of 4 KiB, so that many prompts fit. @param hidden x 1 KiB a shard. */
export function contextOf(instanceId: bigint, model = MODEL, hidden = 4): WireContext {
  return {
    instanceId,
    model,
    worldSize: 1,
    blockTokens: 16,
    layers: 1,
    hidden,
    dtype: 'float16',
    isMla: false,
    slots: null,
    groups: 0,
  }
}

/** Token numbers of a large vocabulary, the same for the same seed. */
export function promptOf(seed: number, chunks: number): Uint32Array {
  let state = seed
  const tokens = Uint32Array.from({ length: chunks * CHUNK_TOKENS }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * VOCABULARY)
  })
  tokens[0] = 0x10000 + seed // of five bytes as an integer, so that it can be replaced in place
  return tokens
}

/** The frame of a key over a whole prompt, whose request id and first token can be replaced in place. */
export class KeyFrame {
  readonly bytes: Buffer
  readonly #requestAt: number
  readonly #tokenAt: number

  constructor(tokens: Uint32Array, form: TokenForm, workerId: number | null, model = MODEL) {
    const key: WireKey = {
      model,
      salt: '',
      worldSize: 1,
      workerId,
      tokens,
      start: 0,
      end: tokens.length,
      requestId: REQUEST_ID,
      readers: 1,
    }
    this.bytes = Buffer.from(encodePayload.key(key, form))
    this.#requestAt = this.bytes.indexOf(REQUEST_ID) + 1
    this.#tokenAt = this.bytes.indexOf(firstToken(tokens[0]!))
  }

  /** @param serial up to seven digits. */
  name(serial: number): this {
    this.bytes.write(String(serial).padStart(REQUEST_ID.length - 1, '0'), this.#requestAt, 'latin1')
    return this
  }

  /** Makes it another prompt, with other hashes from the first chunk on. */
  renew(serial: number): this {
    this.bytes.writeUInt32BE(0x100_0000 + serial, this.#tokenAt)
    return this
  }
}

export function requestFrame(serial: number): Uint8Array {
  return encodePayload.text(`r${String(serial).padStart(REQUEST_ID.length - 1, '0')}`)
}

function firstToken(token: number): Buffer {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(token)
  return bytes
}
