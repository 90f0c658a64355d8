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
    const steps = {
      normalizer: unicodeSpaces(tokenizer.normalizer),
      pre_tokenizer: unicodeSpaces(tokenizer.pre_tokenizer),
    }
    const config = JSON.parse(await readFile(configFile, 'utf8'))
    return new JavaScriptEncoder(new Tokenizer({ ...tokenizer, ...steps }, config))
  }

  async encode(text: string, addSpecialTokens: boolean): Promise<Encoded> {
    const { ids, tokens } = this.#tokenizer.encode(text, { add_special_tokens: addSpecialTokens })
    return { ids, strings: () => tokens }
  }

  async decode(tokens: readonly number[]): Promise<string> {
    if (tokens.length === 0) return ''
    return this.#tokenizer.decode([...tokens], { skip_special_tokens: false, clean_up_tokenization_spaces: false })
  }

  tokenOf(id: number): string | undefined {
    return this.#tokenizer.id_to_token(id)
  }
}

/** GPT-2's expression, which a ByteLevel step applies when it is told nothing else. */
const GPT2_SPLIT = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/**
 * A step of tokenizer.json with its expressions in the words of JavaScript. There \s has U+FEFF and lacks U+0085, and
 * \d has ten digits; the official library goes by the Unicode properties.
 */
function unicodeSpaces(step: unknown): unknown {
  if (Array.isArray(step)) return step.map(unicodeSpaces)
  if (typeof step !== 'object' || step === null) return step
  const own = Object.fromEntries(
    Object.entries(step).map(([name, value]) => {
      return [name, name === 'Regex' && typeof value === 'string' ? unicodeClasses(value) : unicodeSpaces(value)]
    }),
  )
  const { type, use_regex: usesRegex, add_prefix_space: addsSpace } = own
  if (type !== 'ByteLevel' || usesRegex === false || addsSpace === true) return own
  const split = { type: 'Split', pattern: { Regex: unicodeClasses(GPT2_SPLIT) }, behavior: 'Isolated', invert: false }
  return { type: 'Sequence', pretokenizers: [split, { ...own, use_regex: false }] }
}

function unicodeClasses(expression: string): string {
  const classes: Record<string, string> = { s: 'p{White_Space}', S: 'P{White_Space}', d: 'p{Nd}', D: 'P{Nd}' }
  return expression.replace(/\\(.)/gs, (whole, letter: string) => {
    const found = classes[letter]
    return found === undefined ? whole : `\\${found}`
  })
}
