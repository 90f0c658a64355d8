import { readFile } from 'node:fs/promises'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { renderChat, templateOf } from './chat-template.ts'
import { checkText } from './check-text.ts'
import { type Encoded, type Encoder, openEncoder } from './encoder.ts'
import type { ModelFiles } from './model-files.ts'
import type { TokenizerOptions } from './options.ts'
import type { TokenizeQuery } from './tokenizer-port.ts'

export interface TokenizerHostParts {
  readonly options: TokenizerOptions
  readonly clock: Clock
  /** Loads a tokenizer; given by tests. */
  readonly open?: (files: ModelFiles, library: TokenizerOptions['library']) => Promise<Encoder>
}

/** A tokenizer in memory. */
interface Loaded {
  readonly encoder: Encoder
  readonly specialTokens: Readonly<Record<string, string>>
}

const SPECIAL_TOKENS = ['bos_token', 'eos_token', 'unk_token', 'sep_token', 'pad_token', 'cls_token', 'mask_token']

/**
 * The tokenizers of one process: loads them when they are first asked for, and keeps those used last.
 * Methods are called over a port, so what passes can be structured-cloned.
 */
export class TokenizerHost {
  readonly #parts: TokenizerHostParts
  readonly #loaded: LRUCache<string, Promise<Loaded>>

  constructor(parts: TokenizerHostParts) {
    this.#parts = parts
    this.#loaded = new LRUCache({ max: parts.options.loadedMax })
  }

  /** The answer of `/tokenize`, as JSON text in UTF-8. */
  async tokenize(files: ModelFiles, query: TokenizeQuery): Promise<Uint8Array> {
    const encoded = await this.#encode(files, query)
    const { ids } = encoded
    const length = files.maxModelLen === null ? {} : { max_model_len: files.maxModelLen }
    const strings = query.withStrings ? { token_strs: encoded.strings() } : {}
    return Buffer.from(JSON.stringify({ count: ids.length, ...length, tokens: ids, ...strings }))
  }

  async encode(files: ModelFiles, query: TokenizeQuery): Promise<Uint32Array> {
    return Uint32Array.from((await this.#encode(files, query)).ids)
  }

  async decode(files: ModelFiles, tokens: readonly number[]): Promise<string> {
    const { encoder } = await this.#open(files)
    const at = tokens.findIndex((id) => encoder.tokenOf(id) === undefined)
    if (at >= 0) {
      const message = `tokens.${at} is ${tokens[at]}, which is no token of ${files.model}`
      throw new CacheError('BAD_REQUEST', message, { field: `tokens.${at}` })
    }
    return await inLibrary(files, () => encoder.decode(tokens))
  }

  async #encode(files: ModelFiles, { input, addSpecialTokens }: TokenizeQuery): Promise<Encoded> {
    const { encoder, specialTokens } = await this.#open(files)
    const { options, clock } = this.#parts
    const text =
      input.kind === 'text'
        ? input.text
        : renderChat(templateOf(files.templates, input, files.model), input, {
            specialTokens,
            lengthMax: options.textBytesMax,
            wallMs: clock.wallMs(),
          })
    checkText(text, input.kind === 'text' ? 'prompt' : 'messages', options.textBytesMax)
    return await inLibrary(files, () => encoder.encode(text, addSpecialTokens))
  }

  #open(files: ModelFiles): Promise<Loaded> {
    const known = this.#loaded.get(files.stamp)
    if (known !== undefined) return known
    const opening = this.#load(files)
    this.#loaded.set(files.stamp, opening)
    opening.catch(() => this.#loaded.delete(files.stamp))
    return opening
  }

  async #load(files: ModelFiles): Promise<Loaded> {
    const { options, open = openEncoder } = this.#parts
    try {
      const encoder = await open(files, options.library)
      return { encoder, specialTokens: specialTokensOf(JSON.parse(await readFile(files.configFile, 'utf8'))) }
    } catch (error) {
      throw broken(files, `cannot be loaded from ${files.tokenizerFile}; it may be cut short, copy it again`, error)
    }
  }
}

async function inLibrary<T>(files: ModelFiles, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw broken(files, 'failed on the text', error)
  }
}

function broken(files: ModelFiles, what: string, error: unknown): CacheError {
  const reason = error instanceof Error ? error.message : String(error)
  return new CacheError('TOKENIZER_BROKEN', `the tokenizer of ${files.model} ${what}: ${reason.slice(0, 300)}`)
}

/** Special tokens stand in tokenizer_config.json as text, or as an object with the text in it. */
function specialTokensOf(config: Readonly<Record<string, unknown>>): Record<string, string> {
  const tokens: Record<string, string> = {}
  for (const name of SPECIAL_TOKENS) {
    const raw = config[name]
    const text = typeof raw === 'string' ? raw : (raw as { content?: unknown } | null | undefined)?.content
    if (typeof text === 'string') tokens[name] = text
  }
  return tokens
}
