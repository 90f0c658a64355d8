import { readFile } from 'node:fs/promises'
import { Tokenizer } from '@huggingface/tokenizers'
import type { Encoded, Encoder } from './encoder.ts'
import type { ModelFiles } from './model-files.ts'

/** The library in JavaScript, for platforms without the native one. It works on the thread that calls. */
export class JavaScriptEncoder implements Encoder {
  readonly #tokenizer: Tokenizer

  private constructor(tokenizer: Tokenizer) {
    this.#tokenizer = tokenizer
  }

  static async open({ tokenizerFile, configFile }: ModelFiles): Promise<JavaScriptEncoder> {
    const tokenizer = JSON.parse(await readFile(tokenizerFile, 'utf8'))
    const config = JSON.parse(await readFile(configFile, 'utf8'))
    return new JavaScriptEncoder(new Tokenizer(tokenizer, config))
  }

  async encode(text: string, addSpecialTokens: boolean): Promise<Encoded> {
    const { ids, tokens } = this.#tokenizer.encode(text, { add_special_tokens: addSpecialTokens })
    return { ids, strings: () => tokens }
  }

  async decode(tokens: readonly number[]): Promise<string> {
    return this.#tokenizer.decode([...tokens], { skip_special_tokens: false, clean_up_tokenization_spaces: false })
  }

  tokenOf(id: number): string | undefined {
    return this.#tokenizer.id_to_token(id)
  }
}
