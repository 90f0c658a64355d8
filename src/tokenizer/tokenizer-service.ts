import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { allModels } from './all-models.ts'
import { checkText } from './check-text.ts'
import type { ModelFiles } from './model-files.ts'
import type { TokenizerOptions } from './options.ts'
import { startTokenizerProcess } from './tokenizer-child.ts'
import { TokenizerPool, type TokenizerPoolParts } from './tokenizer-pool.ts'
import type { TokenizeQuery, TokenizerModel, TokenizerPort } from './tokenizer-port.ts'

export interface TokenizerServiceParts {
  readonly options: TokenizerOptions
  readonly clock: Clock
  /** Told of a model whose files cannot be read. */
  readonly onBroken: (model: string, error: unknown) => void
  /** Given by tests. */
  readonly start?: TokenizerPoolParts['start']
}

/** How often the directories are read again because a model was not there. */
const RESCAN_MS = 5000

/** The tokenizers of this engine: the models by name, and the processes that do the work. */
export class TokenizerService implements TokenizerPort {
  readonly #parts: TokenizerServiceParts
  readonly #pool: TokenizerPool
  #catalogue: Promise<ReadonlyMap<string, ModelFiles>>
  #scannedMs: number

  private constructor(parts: TokenizerServiceParts, models: ReadonlyMap<string, ModelFiles>) {
    this.#parts = parts
    const start = parts.start ?? ((onEnd) => startTokenizerProcess(parts.options, onEnd))
    this.#pool = new TokenizerPool({ options: parts.options, clock: parts.clock, start })
    this.#catalogue = Promise.resolve(models)
    this.#scannedMs = parts.clock.nowMs()
  }

  /** Reads the directories. @throws CacheError CONFIG_INVALID when one cannot be read */
  static async open(parts: TokenizerServiceParts): Promise<TokenizerService> {
    return new TokenizerService(parts, await scan(parts))
  }

  async models(): Promise<readonly TokenizerModel[]> {
    const all = [...(await this.#catalogue).values()]
    return all.map(({ model, maxModelLen, templates }) => {
      return { model, maxModelLen, hasChatTemplate: templates.default !== undefined }
    })
  }

  async tokenize(query: TokenizeQuery): Promise<Uint8Array> {
    return (await this.#run('tokenize', query)) as Uint8Array
  }

  async encode(query: TokenizeQuery): Promise<Uint32Array> {
    return (await this.#run('encode', query)) as Uint32Array
  }

  async decode(model: string, tokens: readonly number[]): Promise<string> {
    return (await this.#pool.run('decode', [await this.#filesOf(model), tokens])) as string
  }

  close(): void {
    this.#pool.close()
  }

  async #run(method: 'tokenize' | 'encode', query: TokenizeQuery): Promise<unknown> {
    // What is refused for its length should not wait in the queue for it.
    if (query.input.kind === 'text') checkText(query.input.text, 'prompt', this.#parts.options.textBytesMax)
    return await this.#pool.run(method, [await this.#filesOf(query.model), query])
  }

  async #filesOf(model: string): Promise<ModelFiles> {
    const files = (await this.#catalogue).get(model) ?? (await this.#rescan()).get(model)
    if (files !== undefined) return files
    const fix = 'put its tokenizer.json and tokenizer_config.json under <vendor>/<model_name> of a --tokenizer-dir'
    throw new CacheError('TOKENIZER_UNKNOWN', `there is no tokenizer of the model "${model}": ${fix}`, {
      field: 'model',
    })
  }

  /** Reads the directories again, for models that were added; not more often than every few seconds. */
  #rescan(): Promise<ReadonlyMap<string, ModelFiles>> {
    const nowMs = this.#parts.clock.nowMs()
    if (nowMs - this.#scannedMs < RESCAN_MS) return this.#catalogue
    this.#scannedMs = nowMs
    const before = this.#catalogue
    this.#catalogue = scan(this.#parts).catch(() => before)
    return this.#catalogue
  }
}

async function scan({ options, onBroken }: TokenizerServiceParts): Promise<ReadonlyMap<string, ModelFiles>> {
  return new Map((await allModels(options.directories, onBroken)).map((files) => [files.model, files]))
}
