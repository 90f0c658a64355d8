import { readFile } from 'node:fs/promises'
import { Tokenizer } from '@huggingface/tokenizers'
import type { Encoded, Encoder } from '../encoder.ts'
import type { ModelFiles } from '../model-files.ts'
import { type AddedToken, AddedTokens } from './added-tokens.ts'
import { type Normalize, normalizerOf, type Step } from './normalizer.ts'
import { officialNumber } from './official-number.ts'
import { checkUnicode } from './official-unicode.ts'
import { type Around, aroundOf } from './post-processor.ts'
import { preTokenizerOf, type Split } from './pre-tokenizer.ts'
import { vocabularyOf, wordModelOf } from './word-model.ts'

/** A tokenizer.json. */
interface TokenizerJson {
  readonly added_tokens: readonly AddedToken[]
  readonly normalizer: Step
  readonly pre_tokenizer: Step
  readonly post_processor: Step
  readonly decoder: Step
  readonly model: NonNullable<Step>
}

/** What the library in JavaScript undoes as the official one does. */
const DECODERS = new Set(['ByteLevel', 'WordPiece', 'Metaspace', 'Replace', 'ByteFallback', 'Fuse', 'Strip'])

/**
 * The library in JavaScript, for platforms without the native one. It works on the thread that calls.
 *
 *   text -> added tokens | normalizer -> added tokens | words -> tokens of each word -> what the model puts around
 *
 * The library merges words and puts tokens back into text. The steps before are our own, because the library's differ
 * from the official ones in letters of late Unicode, spaces and ties. A tokenizer with a step that is not known to be
 * the same is refused: other token ids are worse than none.
 */
export class JavaScriptEncoder implements Encoder {
  readonly #library: Tokenizer
  readonly #plain: AddedTokens
  readonly #normalized: AddedTokens
  readonly #normalize: Normalize
  readonly #split: Split
  readonly #tokensOf: (word: string) => readonly string[]
  readonly #idOf: (token: string) => number
  readonly #around: Around

  private constructor(json: TokenizerJson) {
    checkUnicode()
    this.#normalize = normalizerOf(json.normalizer)
    this.#split = preTokenizerOf(json.pre_tokenizer)
    this.#around = aroundOf(json.post_processor)
    checkDecoder(json.decoder)
    checkAddedTokens(json.added_tokens, json.model.vocab as object)
    // Its normalizer and pre-tokenizer are ours; its post-processor is never asked.
    const own = { ...json, normalizer: null, pre_tokenizer: null, post_processor: null }
    this.#library = new Tokenizer(own, {})
    this.#tokensOf = wordModelOf(json.model, this.#library)
    this.#idOf = vocabularyOf(json.model, this.#library)
    const isNormalized = ({ normalized, special }: AddedToken) => normalized ?? special !== true
    this.#plain = new AddedTokens(
      json.added_tokens.filter((token) => !isNormalized(token)),
      (content) => content,
    )
    this.#normalized = new AddedTokens(json.added_tokens.filter(isNormalized), this.#normalize)
  }

  /** @throws Error with the reason when ids could differ from the official ones */
  static async open({ tokenizerFile }: ModelFiles): Promise<JavaScriptEncoder> {
    const json = readTokenizer(await readFile(tokenizerFile, 'utf8'))
    try {
      return new JavaScriptEncoder(json)
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      throw new Error(`the library in JavaScript could give other ids than the official one: ${reason}`, {
        cause: error,
      })
    }
  }

  async encode(text: string, addSpecialTokens: boolean): Promise<Encoded> {
    const { before, after } = this.#around
    const ids: number[] = []
    const tokens: string[] = []
    const add = (id: number, token: string) => {
      ids.push(id)
      tokens.push(token)
    }
    if (addSpecialTokens) for (const token of before) add(this.#idOf(token), token)
    for (const [at, section] of this.#plain.split(text).entries()) {
      if (section.token !== null) add(section.token.id, section.text)
      else this.#encodeSection(section.text, at === 0, add)
    }
    if (addSpecialTokens) for (const token of after) add(this.#idOf(token), token)
    return { ids, strings: () => tokens }
  }

  async decode(tokens: readonly number[]): Promise<string> {
    if (tokens.length === 0) return ''
    return this.#library.decode([...tokens], { skip_special_tokens: false, clean_up_tokenization_spaces: false })
  }

  tokenOf(id: number): string | undefined {
    return this.#library.id_to_token(id)
  }

  #encodeSection(text: string, isFirst: boolean, add: (id: number, token: string) => void): void {
    for (const [at, section] of this.#normalized.split(this.#normalize(text)).entries()) {
      if (section.token !== null) {
        add(section.token.id, section.text)
        continue
      }
      for (const word of this.#split(section.text, isFirst && at === 0)) {
        if (word === '') continue
        for (const token of this.#tokensOf(word)) add(this.#idOf(token), token)
      }
    }
  }
}

function readTokenizer(text: string): TokenizerJson {
  const json = JSON.parse(text) as TokenizerJson
  // Only the scores of Unigram are numbers that are not whole.
  if (!Array.isArray(json.model.vocab)) return json
  type Read = (key: string, value: unknown, context?: { readonly source?: string }) => unknown
  const read: Read = (_, value, context) => (typeof value === 'number' ? officialNumber(context!.source!) : value)
  return JSON.parse(text, read)
}

function checkDecoder(step: Step): void {
  if (step === null || step === undefined) return
  if (step.type === 'Sequence') for (const part of step.decoders as Step[]) checkDecoder(part)
  else if (!DECODERS.has(String(step.type))) {
    throw new Error(`it does not know the decoder ${step.type}; use the native library`)
  }
}

/** @param vocabulary ids by token; or rows, of Unigram. */
function checkAddedTokens(tokens: readonly AddedToken[], vocabulary: object): void {
  const ids = new Map(
    Array.isArray(vocabulary) ? vocabulary.map(([token], row) => [token, row]) : Object.entries(vocabulary),
  )
  const size = ids.size
  let last = -1
  for (const { content, id, single_word: isWord } of tokens) {
    if (isWord === true) throw new Error(`it does not find tokens that must be words by themselves, such as ${content}`)
    // Where the official library puts it, whatever the file says.
    const official = ids.get(content) ?? (last >= size ? last + 1 : size)
    if (id !== official)
      throw new Error(`the id of ${content} is ${id} in the file, and ${official} in the official library`)
    last = Math.max(last, id)
  }
}
