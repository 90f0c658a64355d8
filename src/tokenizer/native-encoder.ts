import { Tokenizer } from 'tokenizers'
import type { Encoded, Encoder } from './encoder.ts'
import type { ModelFiles } from './model-files.ts'

/** The official library, in Rust. It encodes and decodes on threads of libuv's pool. */
export class NativeEncoder implements Encoder {
  readonly #tokenizer: Tokenizer

  private constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer
  }

  static open({ tokenizerFile }: ModelFiles): NativeEncoder {
    const tokenizer = Tokenizer.fromFile(tokenizerFile)
    // Files of embedding models cut and pad: that is for batches, and here every token counts.
    tokenizer.disableTruncation()
    tokenizer.disablePadding()
    return new NativeEncoder(tokenizer)
  }

  async encode(text: string, addSpecialTokens: boolean): Promise<Encoded> {
    const encoding = await this.#tokenizer.encode(text, null, { addSpecialTokens })
    return { ids: encoding.getIds(), strings: () => encoding.getTokens() }
  }

  decode(tokens: readonly number[]): Promise<string> {
    return this.#tokenizer.decode([...tokens], false)
  }

  tokenOf(id: number): string | undefined {
    return this.#tokenizer.idToToken(id) ?? undefined
  }
}
