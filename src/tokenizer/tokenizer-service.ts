import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import { allModels, type ModelCatalogue } from './all-models.ts'
import { checkText } from './check-text.ts'
import { type ModelFiles, stampOf } from './model-files.ts'
import type { TokenizerOptions } from './options.ts'
import { startTokenizerProcess } from './tokenizer-child.ts'
import { TokenizerPool, type TokenizerPoolParts } from './tokenizer-pool.ts'
import type { TokenizeQuery, TokenizerModel, TokenizerPort } from './tokenizer-port.ts'

export interface TokenizerServiceParts {
  readonly options: TokenizerOptions
  readonly clock: Clock
  /** Told once of a model whose files cannot be read, and again when the reason is another one. */
  readonly onBroken: (model: string, error: unknown) => void
  /** Given by tests. */
  readonly start?: TokenizerPoolParts['start']
}

/** Files of a model are looked at this often while it is asked for, and the directories when a model is not there. */
const RESCAN_MS = 5000

/** The tokenizers of this engine: the models by name, and the processes that do the work. */
export class TokenizerService implements TokenizerPort {
  readonly #parts: TokenizerServiceParts
  readonly #pool: TokenizerPool
  #catalogue: Promise<ModelCatalogue>
  #scannedMs: number
  /** When the files of a model were looked at. */
  readonly #checkedMs = new Map<string, number>()
  readonly #told = new Map<string, string>()

  private constructor(parts: TokenizerServiceParts, catalogue: ModelCatalogue) {
    this.#parts = parts
    const start = parts.start ?? ((onEnd) => startTokenizerProcess(parts.options, onEnd))
    this.#pool = new TokenizerPool({ options: parts.options, clock: parts.clock, start })
    this.#catalogue = Promise.resolve(this.#tell(catalogue))
    this.#scannedMs = parts.clock.nowMs()
  }

  /** Reads the directories. @throws CacheError CONFIG_INVALID when one cannot be read */
  static async open(parts: TokenizerServiceParts): Promise<TokenizerService> {
    return new TokenizerService(parts, await allModels(parts.options.directories))
  }

  async models(): Promise<readonly TokenizerModel[]> {
    const { models } = await this.#rescan()
    return [...models.values()].map(({ model, maxModelLen, templates }) => {
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
    let { models, broken } = await this.#catalogue
    const known = models.get(model)
    if (known === undefined || (await this.#hasChanged(known))) {
      const catalogue = await this.#rescan(known !== undefined)
      models = catalogue.models
      broken = catalogue.broken
    }
    const files = models.get(model)
    if (files !== undefined) return files
    const reason = broken.get(model)
    if (reason !== undefined) throw reason
    const fix = 'put its tokenizer.json and tokenizer_config.json under <vendor>/<model_name> of a --tokenizer-dir'
    throw new CacheError('TOKENIZER_UNKNOWN', `there is no tokenizer of the model "${model}": ${fix}`, {
      field: 'model',
    })
  }

  /** Whether files of a model are others than when the directories were read; looked at every few seconds. */
  async #hasChanged({ model, tokenizerFile, stamp }: ModelFiles): Promise<boolean> {
    const nowMs = this.#parts.clock.nowMs()
    if (nowMs - (this.#checkedMs.get(model) ?? this.#scannedMs) < RESCAN_MS) return false
    this.#checkedMs.set(model, nowMs)
    return (await stampOf(tokenizerFile)) !== stamp
  }

  /** Reads the directories again, not more often than every few seconds unless it must be. */
  #rescan(isForced = false): Promise<ModelCatalogue> {
    const nowMs = this.#parts.clock.nowMs()
    if (!isForced && nowMs - this.#scannedMs < RESCAN_MS) return this.#catalogue
    this.#scannedMs = nowMs
    this.#checkedMs.clear()
    const before = this.#catalogue
    this.#catalogue = allModels(this.#parts.options.directories).then(
      (catalogue) => this.#tell(catalogue),
      () => before,
    )
    return this.#catalogue
  }

  #tell(catalogue: ModelCatalogue): ModelCatalogue {
    for (const model of this.#told.keys()) if (!catalogue.broken.has(model)) this.#told.delete(model)
    for (const [model, error] of catalogue.broken) {
      if (this.#told.get(model) === error.message) continue
      this.#told.set(model, error.message)
      this.#parts.onBroken(model, error)
    }
    return catalogue
  }
}
