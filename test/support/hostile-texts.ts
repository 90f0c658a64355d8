import { random } from './random.ts'

/** Letters of many scripts, and what breaks tokenizers: marks, joiners, spaces of all kinds, controls, special tokens. */
const PIECES = [
  ...'abcdefghij XYZ 0123456789 .,;:!?-_/\\\'"()[]{}<>@#$%^&*+=~`|',
  'the ',
  ' quick',
  "don't",
  "I'LL",
  'naïve',
  'Straße',
  'İstanbul',
  'ﬁ',
  'Ａ',
  '①',
  'é',
  'e\u0301',
  'ǆ',
  '\u0300\u0301\u0302',
  'нет',
  'Ελλάδα',
  'שלום',
  'مرحبا',
  'ٱلْ',
  'नमस्ते',
  'ไทย',
  '中文',
  '日本語',
  'カタカナ',
  '한국어',
  '\u1112\u1161\u11ab',
  '👩‍👩‍👧‍👦',
  '🇩🇪',
  '👍🏽',
  '𝔘𝔫𝔦',
  '\u{10ffff}',
  '\u{e000}',
  '\ufffd',
  '\ufeff',
  '\u200b',
  '\u200d',
  '\u00ad',
  '\u202e',
  '\u2028',
  '\u0085',
  '\u00a0',
  '\u3000',
  '\u2581',
  '\u0000',
  '\u0007',
  '\u001b[31m',
  '\u007f',
  '\t',
  '\n',
  '\r\n',
  '   ',
  '<s>',
  '</s>',
  '<unk>',
  '<0x41>',
  '[CLS]',
  '[UNK]',
  '<|im_start|>',
  '<|im_end|>',
  '<|endoftext|>',
  '<|endoftext',
  'Ġ',
  '##ing',
  '12345678901234567890',
  '3.14159e-10',
  'https://example.org/a?b=c&d=%20',
  'SELECT * FROM "t" WHERE a <> 1;',
]

const WORDS =
  'time year people way day man thing woman life child world school state family student group country problem hand part place case week company system program question work government number night point home water room mother area money story fact month lot right study book eye job word business issue side kind head house service friend father power hour game line end member law car city community name president team minute idea kid body information back parent face others level office door health person art war history party result change morning reason research girl guy moment air teacher force education'.split(
    ' ',
  )

/** Spaces by one standard or another, and what may stand between them. */
const SPACES = [
  ...' \t\n\r\u000b\u000c\u001c\u001f\u0085\u00a0\u1680\u180e\u2000\u200b\u2028\u202f\u205f\u2060\u3000\ufeffa.7٣',
]

/** Texts that tokenizers get wrong when they get anything wrong; the same for each seed. */
export function hostileTexts(seed: number, count: number): string[] {
  const next = random(seed)
  const pick = (): string => PIECES[next(PIECES.length)]!
  const mixed = Array.from({ length: count }, () => Array.from({ length: 1 + next(40) }, pick).join(''))
  const blank = (): string => Array.from({ length: 12 }, () => SPACES[next(SPACES.length)]!).join('')
  const blanks = Array.from({ length: count }, blank)
  const runs = PIECES.map((piece) => piece.repeat(50))
  return [
    '',
    ' ',
    '\n',
    ...PIECES,
    ...runs,
    ...mixed,
    ...blanks,
    ...Array.from({ length: 20 }, (_, at) => proseText(seed + at, 400)),
  ]
}

/** Texts that go by rules of letters: small letters, words within words, tokens that are cut off. */
const CASES = [
  "it'ſ 'ſ I'ſo x'LL'Re'ſ",
  "K'\u212a '\ufb06a",
  'ΑΣ ΣΑΣ Σ ὈΔΥΣΣΕΎΣ ΣΣ.',
  'İI ǅ ß ẞ ŉ ΐ',
  '𠀀𠀁 a𪜀b𫝀 中a文',
  'क्षि நி กำ ဂ္ဂ',
  '\u0915\u093c \u0958 \u2126 \u212b \u1e9b\u0323',
  '\u{105d2}\u0307 \u{16d67}\u{16d67} \u{11382}\u{113c9}',
  '<s ><s></s<s>  <s>\u3000</s>\u0085<unk>',
  '▁ ▁▁a ▁b▁ c▁',
]

/**
 * Every letter of the first two planes, and some of the others: one after the other, each a word, each within a word.
 * Letters that one version of Unicode has and another has not are among them.
 */
export function unicodeTexts(seed: number): string[] {
  const next = random(seed)
  const texts = [...CASES]
  for (let first = 0; first < 0x2_0000; first += 256) {
    const points = Array.from({ length: 256 }, (_, at) => first + at).filter(
      (point) => point < 0xd800 || point > 0xdfff,
    )
    const letters = points.map((point) => String.fromCodePoint(point))
    texts.push(letters.join(''), letters.join(' '), `a${letters.join('a')}`)
  }
  for (let plane = 2; plane <= 16; plane += 1) {
    for (let text = 0; text < 8; text += 1) {
      const letters = Array.from({ length: 48 }, () => String.fromCodePoint(plane * 0x1_0000 + next(0x1_0000)))
      texts.push(letters.map((letter) => (next(3) === 0 ? `${letter}x` : letter)).join(''))
    }
  }
  return texts.filter((text) => text !== '')
}

/** Plain words of about so many characters. */
export function proseText(seed: number, length: number): string {
  const next = random(seed)
  let text = ''
  while (text.length < length) {
    const word = WORDS[next(WORDS.length)]!
    const mark = ['', '', '', '', ',', '.', '?', ':'][next(8)]
    text += `${next(12) === 0 ? word[0]!.toUpperCase() + word.slice(1) : word}${next(40) === 0 ? next(10_000) : ''}${mark} `
  }
  return text.slice(0, length)
}
