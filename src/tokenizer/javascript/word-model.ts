import type { Tokenizer } from '@huggingface/tokenizers'
import { type Step, unknownStep } from './normalizer.ts'
import { Unigram, type UnigramModel } from './unigram.ts'

/** What is used of a model of the library, which is a function with properties. */
interface LibraryModel {
  (words: readonly string[]): string[]
  readonly tokens_to_ids: Map<string, number>
  readonly unk_token_id?: number
}

/**
 * The tokens of one word, as text. Each word by itself: the library would join unknown tokens over words.
 *
 * @throws Error for a model that is not known to do here what it does in the official library.
 */
export function wordModelOf(model: NonNullable<Step>, library: Tokenizer): (word: string) => readonly string[] {
  const { type = typeOf(model) } = model
  const own = library.model as unknown as LibraryModel
  const { dropout, continuing_subword_prefix: prefix, end_of_word_suffix: suffix } = model
  const isPlain = !dropout && !prefix && !suffix
  if (type === 'Unigram') {
    const unigram = new Unigram(model as unknown as UnigramModel)
    return (word) => unigram.tokensOf(word)
  }
  if (type === 'WordPiece' || (type === 'BPE' && isPlain)) return (word) => own([word])
  throw unknownStep('model', { type, dropout, prefix, suffix })
}

/** Ids by token. The library counts added tokens among those that words are merged to; they are taken out again. */
export function vocabularyOf(model: NonNullable<Step>, library: Tokenizer): (token: string) => number {
  const { tokens_to_ids: ids, unk_token_id: unknown } = library.model as unknown as LibraryModel
  const vocabulary = model.vocab as object
  const all = new Map(ids)
  if (!Array.isArray(vocabulary))
    for (const token of ids.keys()) if (!Object.hasOwn(vocabulary, token)) ids.delete(token)
  return (token) => all.get(token) ?? unknown!
}

/** Files of old say nothing of the type. */
function typeOf({ vocab, merges }: NonNullable<Step>): string {
  if (Array.isArray(vocab)) return 'Unigram'
  return merges === undefined ? 'WordPiece' : 'BPE'
}
