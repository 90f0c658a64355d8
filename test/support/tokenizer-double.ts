import { CacheError } from '../../src/core/errors.ts'
import type { TokenizeQuery, TokenizerModel, TokenizerPort } from '../../src/tokenizer/tokenizer-port.ts'

/** A port double for unit tests of the HTTP layer: a token is a byte of UTF-8. It knows one model, and no template. */
export class TokenizerDouble implements TokenizerPort {
  /** What was asked, last first. */
  readonly queries: TokenizeQuery[] = []
  /** Set to make the next calls fail. */
  failure: Error | undefined

  async models(): Promise<readonly TokenizerModel[]> {
    return [{ model: 'acme/bytes', maxModelLen: 1024, hasChatTemplate: true }]
  }

  async tokenize(query: TokenizeQuery): Promise<Uint8Array> {
    const tokens = [...(await this.encode(query))]
    const strings = query.withStrings ? { token_strs: tokens.map((token) => String.fromCharCode(token)) } : {}
    return Buffer.from(JSON.stringify({ count: tokens.length, max_model_len: 1024, tokens, ...strings }))
  }

  async encode(query: TokenizeQuery): Promise<Uint32Array> {
    this.queries.unshift(query)
    this.#check(query.model)
    const { input } = query
    const text = input.kind === 'text' ? input.text : input.messages.map(({ content }) => String(content)).join('\n')
    return Uint32Array.from(Buffer.from(text))
  }

  async decode(model: string, tokens: readonly number[]): Promise<string> {
    this.#check(model)
    return Buffer.from(tokens as number[]).toString()
  }

  #check(model: string): void {
    if (this.failure !== undefined) throw this.failure
    if (model !== 'acme/bytes') {
      throw new CacheError('TOKENIZER_UNKNOWN', `there is no tokenizer of the model "${model}": see --tokenizer-dir`, {
        field: 'model',
      })
    }
  }
}
