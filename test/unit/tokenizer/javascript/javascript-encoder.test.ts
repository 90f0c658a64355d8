import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openEncoder } from '../../../../src/tokenizer/encoder.ts'
import type { ModelFiles } from '../../../../src/tokenizer/model-files.ts'
import { hostileTexts, unicodeTexts } from '../../../support/hostile-texts.ts'

// Each step by itself, with the official library as the oracle; whole tokenizers are compared in test/compat.

let folder: string
let count = 0
const texts = [...hostileTexts(5, 60), ...unicodeTexts(5).filter((_, at) => at % 8 === 0)]

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvtier-encoder-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A model of bytes, so that every text has tokens. */
const bytes = Object.fromEntries(
  Array.from({ length: 256 }, (_, byte) => [`<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`, byte + 1]),
)
const words = ['▁', '▁a', 'a', 'aa', 'b', '▁the', 'th', 'e', 'é', '中']
const BPE = {
  type: 'BPE',
  unk_token: '<unk>',
  byte_fallback: true,
  fuse_unk: true,
  vocab: {
    '<unk>': 0,
    ...bytes,
    ...Object.fromEntries([...'▁atheb'].map((letter, at) => [letter, 257 + at])),
    aa: 263,
  },
  merges: [['a', 'a']],
}
const WORDS = {
  type: 'WordPiece',
  unk_token: '<unk>',
  continuing_subword_prefix: '##',
  max_input_chars_per_word: 100,
  vocab: {
    '<unk>': 0,
    ...Object.fromEntries(
      [...'abcdefghijklmnopqrstuvwxyz'].flatMap((letter, at) => [
        [letter, 1 + at],
        [`##${letter}`, 27 + at],
      ]),
    ),
  },
}
const UNIGRAM = {
  type: 'Unigram',
  unk_id: 0,
  byte_fallback: false,
  vocab: [
    ['<unk>', 0],
    ...words.map((word, at) => [word, -1.1000000000000003 * (at + 1)]),
    ['aaaa', -6.600000000000001],
  ],
}

function filesOf(parts: object): ModelFiles {
  const tokenizerFile = join(folder, `${count++}.json`)
  const empty = {
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    added_tokens: [],
    model: BPE,
  }
  writeFileSync(tokenizerFile, JSON.stringify({ version: '1.0', truncation: null, padding: null, ...empty, ...parts }))
  return { model: 'a/b', tokenizerFile, configFile: '', stamp: tokenizerFile, maxModelLen: null, templates: {} }
}

const split = (expression: string, behavior = 'Isolated', invert = false) => {
  return { type: 'Split', pattern: { Regex: expression }, behavior, invert }
}
const token = (content: string, more: object = {}) => {
  const plain = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true }
  return { id: 264, content, ...plain, ...more }
}

it.each([
  ['nothing but merges', {}],
  ['NFC', { normalizer: { type: 'NFC' } }],
  ['NFD', { normalizer: { type: 'NFD' } }],
  ['NFKC', { normalizer: { type: 'NFKC' } }],
  ['NFKD', { normalizer: { type: 'NFKD' } }],
  ['small letters', { normalizer: { type: 'Lowercase' } }],
  ['what is replaced', { normalizer: { type: 'Replace', pattern: { Regex: ' {2,}|\\d+' }, content: '$&' } }],
  ['what is put before', { normalizer: { type: 'Prepend', prepend: '▁' } }],
  ...[true, false].flatMap((lowercase) =>
    [null, true, false].map((strips): [string, object] => {
      const normalizer = {
        type: 'BertNormalizer',
        clean_text: lowercase,
        handle_chinese_chars: true,
        strip_accents: strips,
        lowercase,
      }
      return [
        `BERT's text, ${lowercase} ${strips}`,
        { normalizer, pre_tokenizer: { type: 'BertPreTokenizer' }, model: WORDS },
      ]
    }),
  ),
  ...['Isolated', 'Removed', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'].flatMap((behavior) =>
    [true, false].map((invert): [string, object] => {
      return [
        `words ${behavior} ${invert}`,
        { pre_tokenizer: split('[\\p{L}\\p{M}]|[^\\P{N}]+', behavior, invert), model: WORDS },
      ]
    }),
  ),
  [
    'cases of letters',
    {
      pre_tokenizer: split("[\\p{Lu}\\p{Lt}]+|\\p{Ll}+(?i:'s|'[kt])?|\\p{Lm}|\\p{Lo}+|\\p{P}+|\\p{S}|\\p{Nd}|\\P{Mn}"),
    },
  ],
  [
    'GPT-2 words',
    { pre_tokenizer: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true } },
  ],
  ['spaces', { pre_tokenizer: { type: 'WhitespaceSplit' } }],
  ...['always', 'first', 'never'].flatMap((scheme) =>
    [true, false].map((splits): [string, object] => {
      const pre_tokenizer = { type: 'Metaspace', replacement: '▁', prepend_scheme: scheme, split: splits }
      return [
        `Metaspace ${scheme} ${splits}`,
        {
          pre_tokenizer,
          model: UNIGRAM,
          added_tokens: [token('<s>', { id: 12 }), token('e', { id: 8, normalized: true })],
        },
      ]
    }),
  ),
  ['Unigram', { model: UNIGRAM }],
  [
    'Unigram with bytes',
    {
      model: {
        ...UNIGRAM,
        byte_fallback: true,
        vocab: [...UNIGRAM.vocab, ...Object.keys(bytes).map((byte) => [byte, -9])],
      },
    },
  ],
  [
    'tokens that take spaces along',
    { added_tokens: [token('<s>', { lstrip: true }), token('</s>', { id: 265, rstrip: true })] },
  ],
  [
    'normalized tokens',
    { normalizer: { type: 'Lowercase' }, added_tokens: [token('THE', { normalized: true, special: false })] },
  ],
  [
    'what stands around',
    {
      added_tokens: [token('<s>'), token('</s>', { id: 265 })],
      post_processor: {
        type: 'TemplateProcessing',
        single: [
          { SpecialToken: { id: '<s>', type_id: 0 } },
          { Sequence: { id: 'A', type_id: 0 } },
          { SpecialToken: { id: '</s>', type_id: 0 } },
        ],
        pair: [],
        special_tokens: {
          '<s>': { id: '<s>', ids: [264], tokens: ['<s>'] },
          '</s>': { id: '</s>', ids: [265], tokens: ['</s>'] },
        },
      },
    },
  ],
])('has the official tokens: %s', async (_what, parts) => {
  const files = filesOf(parts)
  const [own, official] = [await openEncoder(files, 'javascript'), await openEncoder(files, 'native')]
  const wrong: object[] = []
  for (const text of texts) {
    const [mine, wanted] = [await own.encode(text, true), await official.encode(text, true)]
    const both = [mine, wanted].map((encoded) => JSON.stringify([encoded.ids, encoded.strings()]))
    if (both[0] !== both[1]) wrong.push({ text, mine: both[0], wanted: both[1] })
  }
  expect(wrong.slice(0, 2), `${wrong.length} of ${texts.length} texts differ`).toEqual([])
})

it.each([
  ['a charsmap', { normalizer: { type: 'Precompiled', precompiled_charsmap: '' } }, /Precompiled/],
  ['a normalizer it does not know', { normalizer: { type: 'StripAccents' } }, /StripAccents/],
  ['a pre-tokenizer it does not know', { pre_tokenizer: { type: 'Whitespace' } }, /Whitespace/],
  ['expressions of letters of words', { pre_tokenizer: split('\\w+') }, /\\w/],
  ['scripts that may have changed', { pre_tokenizer: split('\\p{Cyrillic}+') }, /Cyrillic/],
  ['words without regard to case', { pre_tokenizer: split('(?i:straße)') }, /straße/],
  ['dropout', { model: { ...BPE, dropout: 0.1 } }, /dropout/],
  ['suffixes', { model: { ...BPE, end_of_word_suffix: '</w>' } }, /<\/w>/],
  ['tokens that must be words', { added_tokens: [token('THE', { single_word: true })] }, /THE/],
  ['tokens with other ids', { added_tokens: [token('<s>', { id: 300 })] }, /300/],
  ['a decoder it does not know', { decoder: { type: 'CTC' } }, /CTC/],
])('refuses %s', async (_what, parts, reason) => {
  await expect(openEncoder(filesOf(parts), 'javascript')).rejects.toThrow(reason)
})
