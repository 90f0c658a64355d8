/**
 * What the official library knows of Unicode, in the words of a JavaScript engine that knows more. Its parts come from
 * libraries of different ages:
 *
 *   expressions        Unicode 16
 *   NFC, NFD, ...      Unicode 9: later letters are inert, they neither decompose nor compose nor change places
 *   marks, punctuation, controls of BERT   Unicode 8
 *   lower case         Unicode 17, letter by letter
 *
 * The lists are the differences to Unicode 17, as ranges of hexadecimal code points; `test/compat/tokenizer.test.ts`
 * compares all of them with the library.
 */
const SINCE_17 = `88f c5c cdc 1acf-1add 1ae0-1aeb 20c1 2b96 a7ce-a7cf a7d2 a7d4 a7f1 fbc3-fbd2 fd90-fd91 fdc8-fdce
  10940-10959 10ec5-10ec7 10ed0-10ed8 10efa-10efb 11b60-11b67 11db0-11ddb 11de0-11de9 16ea0-16eb8 16ebb-16ed3
  16ff2-16ff6 187f8-187ff 18d09-18d1e 18d80-18df2 1ccfa-1ccfc 1ceba-1ced0 1cee0-1cef0 1e6c0-1e6de 1e6e0-1e6f5
  1e6fe-1e6ff 1f6d8 1f777-1f77a 1f8d0-1f8d8 1fa54-1fa57 1fa8a 1fa8e 1fac8 1facd 1faea 1faef 1fbfa 2b73a-2b73f
  2cea2-2cead 323b0-33479`

const INERT = `7fd 897-89f 8ca-8d3 9fe c3c d3b-d3c eba 1715 1abf-1add 1ae0-1aeb 1df6-1dfa 32ff a7f1-a7f4 a82c ab69
  105c9 105d2 105da 105e4 10781-10785 10787-107b0 107b2-107ba 10d24-10d27 10d69-10d6d 10eab-10eac 10efa-10efb
  10efd-10eff 10f46-10f50 10f82-10f85 11070 1133b 11382-11385 1138b 1138e 11390-11391 113b8 113bb 113c2 113c5
  113c7-113c9 113ce-113d0 1145e 11839-1183a 11930 11935 11938 1193d-1193e 11943 119e0 11a34 11a47 11a99 11d42
  11d44-11d45 11d97 11f41-11f42 1611e-16129 1612f 16d63 16d67-16d6a 16ff0-16ff1 1ccd6-1ccf9 1e030-1e06d 1e08f
  1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6 1e6ee-1e6ef 1e6f5 1f16c 1fbf0-1fbf9`

const MARKS_SINCE_8 = `7fd 897-89f 8ca-8e1 9fe afa-aff b55 c04 c3c d00 d3b-d3c d81 eba ece 180f 1885-1886 1abf-1add
  1ae0-1aeb 1df6-1dfb a82c a8c5 a8ff a9bd 10d24-10d27 10d69-10d6d 10eab-10eac 10efa-10eff 10f46-10f50 10f82-10f85
  11070 11073-11074 110c2 111c9 111cf 1123e 11241 1133b 113bb-113c0 113ce 113d0 113d2 113e1-113e2 11438-1143f
  11442-11444 11446 1145e 1182f-11837 11839-1183a 1193b-1193c 1193e 11943 119d4-119d7 119da-119db 119e0 11a01-11a0a
  11a33-11a38 11a3b-11a3e 11a47 11a51-11a56 11a59-11a5b 11a8a-11a96 11a98-11a99 11b60 11b62-11b64 11b66 11c30-11c36
  11c38-11c3d 11c3f 11c92-11ca7 11caa-11cb0 11cb2-11cb3 11cb5-11cb6 11d31-11d36 11d3a 11d3c-11d3d 11d3f-11d45 11d47
  11d90-11d91 11d95 11d97 11ef3-11ef4 11f00-11f01 11f36-11f3a 11f40 11f42 11f5a 13440 13447-13455 1611e-16129
  1612d-1612f 16f4f 16fe4 1cf00-1cf2d 1cf30-1cf46 1e000-1e006 1e008-1e018 1e01b-1e021 1e023-1e024 1e026-1e02a 1e08f
  1e130-1e136 1e2ae 1e2ec-1e2ef 1e4ec-1e4ef 1e5ee-1e5ef 1e6e3 1e6e6 1e6ee-1e6ef 1e6f5 1e944-1e94a`
const MARKS_OF_8 = '1734 1171e'

const PUNCTUATION_SINCE_8 = `61d 9fd a76 c77 c84 1b4e-1b4f 1b7d-1b7f 2e43-2e4f 2e52-2e5d 10d6e 10ead 10ed0
  10f55-10f59 10f86-10f89 113d4-113d5 113d7-113d8 1144b-1144f 1145a-1145b 1145d 11660-1166c 116b9 1183b 11944-11946
  119e2 11a3f-11a46 11a9a-11a9c 11a9e-11aa2 11b00-11b09 11be1 11c41-11c45 11c70-11c71 11ef7-11ef8 11f43-11f4f 11fff
  12ff1-12ff2 16d6d-16d6f 16e97-16e9a 16fe2 1e5ff 1e95e-1e95f`
const PUNCTUATION_OF_8 = '166d 111c9'

const CONTROLS_SINCE_8 = '890-891 8e2 110cd 13430-1343f'

/** The newest Unicode that the lists know. A later one has letters that they do not tell apart. */
const NEWEST_UNICODE = 17

/** Properties whose sets are known to differ in letters of Unicode 17 alone, but for one letter. */
const PROPERTIES = /^(?:L[ultmo]?|N[dlo]?|M[nce]?|P[cdseifo]?|S[mcko]?|Z[slp]?|Han|Hiragana|Katakana|Hangul)$/
/** A small letter until Unicode 16, then one without case. */
const MOVED = '295'
/** What may be read in another way by the official library's expressions, or is not known at all. */
const ODD = /\\[wWbBhHRXKGZAzaek]|\\[pP](?!\{)|\[\[?:|&&|\(\?(?!:|=|!|<=|<!|i:)/

const ASCII_PUNCTUATION = '\\x21-\\x2f\\x3a-\\x40\\x5b-\\x60\\x7b-\\x7e'
const BERT_MARK = new RegExp(setOf('\\p{Mn}', MARKS_SINCE_8, MARKS_OF_8), 'gv')
const BERT_CONTROL = new RegExp(setOf('\\p{Cc}\\p{Cf}\\p{Co}', `${CONTROLS_SINCE_8} 9 a d`, 'fffd'), 'gv')
const BERT_PUNCTUATION = setOf(`\\p{P}${ASCII_PUNCTUATION}`, PUNCTUATION_SINCE_8, PUNCTUATION_OF_8)
const BERT_WORD = new RegExp(`${BERT_PUNCTUATION}|[^${BERT_PUNCTUATION}\\p{White_Space}]+`, 'gv')
const INERT_LETTERS = new RegExp(`([${rangesText(INERT)}])`, 'v')

/** @throws Error when this JavaScript engine knows a Unicode that the lists do not. */
export function checkUnicode(version = process.versions.unicode): void {
  if (Number.parseInt(version ?? '', 10) <= NEWEST_UNICODE) return
  throw new Error(`it knows Unicode up to ${NEWEST_UNICODE}, and this Node has ${version}`)
}

/** A text in a normal form of Unicode. */
export function normalForm(text: string, form: 'NFC' | 'NFD' | 'NFKC' | 'NFKD'): string {
  const parts = text.split(INERT_LETTERS)
  return parts.map((part, at) => (at % 2 === 1 ? part : part.normalize(form))).join('')
}

/** A text in small letters, each by itself: a sigma at the end of a word is one like the others. */
export function lowerCase(text: string): string {
  return text.replaceAll('\u03a3', '\u03c3').toLowerCase()
}

/** BERT's clean_text: no controls, and one kind of space. */
export function withoutControls(text: string): string {
  return text.replace(BERT_CONTROL, '').replace(/\p{White_Space}/gu, ' ')
}

/** BERT's strip_accents. */
export function withoutAccents(text: string): string {
  return normalForm(text, 'NFD').replace(BERT_MARK, '')
}

/** BERT's words: a mark of punctuation is one by itself. */
export function bertWords(text: string): string[] {
  return text.match(BERT_WORD) ?? []
}

/**
 * An expression of tokenizer.json with its properties as sets of code points.
 *
 * @throws Error for what is not known to mean the same in both libraries.
 */
export function officialExpression(expression: string): string {
  const odd = ODD.exec(expression.replaceAll('\\\\', ''))
  if (odd !== null) throw new Error(`it may read "${odd[0]}" of an expression in another way`)
  let depth = 0
  return withLongLetters(expression).replace(
    /\\(?:([pP])\{(\^?)([^}]*)\}|([dD])|.)|[[\]]/gs,
    (whole, kind, not, name, digit) => {
      if (whole === '[') depth += 1
      if (whole === ']') depth -= 1
      if (digit === undefined && (kind === undefined || name === 'White_Space')) return whole
      const isNegated = digit === undefined ? (kind === 'P') !== (not === '^') : digit === 'D'
      const set = propertySet(digit === undefined ? name : 'Nd', isNegated)
      return depth === 0 ? `[${set}]` : set
    },
  )
}

/** Letters without regard to case: there a long s is an s, and the sign of Kelvin a k. */
function withLongLetters(expression: string): string {
  return expression.replace(/\(\?i:([^)]*)\)/g, (_, words: string) => {
    if (!/^['\u2019|[\]a-z]*$/i.test(words)) throw new Error(`it may read "(?i:${words})" in another way`)
    const pairs: Readonly<Record<string, string>> = { s: 's\u017f', k: 'k\u212a' }
    const whole = words.replace(/\[[^\]]*\]|[sk]/gi, (found) => {
      const letters = found.replace(/[sk]/gi, (letter) => pairs[letter.toLowerCase()]!)
      return found.startsWith('[') ? letters : `[${letters}]`
    })
    return `(?i:${whole})`
  })
}

const known = new Map<string, string>()

/** The code points of a property, as what stands between the brackets of a class. */
function propertySet(name: string, isNegated: boolean): string {
  if (!PROPERTIES.test(name)) throw new Error(`it does not know the property "${name}"`)
  const key = `${isNegated ? '^' : ''}${name}`
  let found = known.get(key)
  if (found === undefined) {
    const property = name.length > 2 ? `\\p{Script=${name}}` : `\\p{${name}}`
    const set = setOf(property, name === 'Lo' ? `${SINCE_17} ${MOVED}` : SINCE_17, name === 'Ll' ? MOVED : '')
    found = rangesOf(new RegExp(isNegated ? `[^${set}]+` : `${set}+`, 'gv'))
    known.set(key, found)
  }
  return found
}

/** A set in the words of the flag `v`. */
function setOf(own: string, without: string, plus: string): string {
  return `[[[${own}]--[${rangesText(without)}]][${rangesText(plus)}]]`
}

function rangesText(ranges: string): string {
  return ranges.replace(/[0-9a-f]+/g, (hex) => `\\u{${hex}}`).replace(/\s+/g, '')
}

/** Every run of code points that an expression finds in the whole of Unicode. */
function rangesOf(run: RegExp): string {
  const point = (text: string) => `\\u{${text.codePointAt(0)!.toString(16)}}`
  let ranges = ''
  for (const plane of planes()) {
    for (const [found] of plane.matchAll(run)) ranges += `${point(found)}-${point([...found.slice(-2)].at(-1)!)}`
  }
  return ranges
}

/** All letters there can be, in order. */
function* planes(): Generator<string> {
  for (let plane = 0; plane <= 16; plane += 1) {
    const points = Array.from({ length: 0x1_0000 }, (_, at) => plane * 0x1_0000 + at)
    // A call takes so many arguments and no more.
    yield Array.from({ length: 16 }, (_, part) => {
      const some = points.slice(part * 0x1000, (part + 1) * 0x1000)
      return String.fromCodePoint(...some.filter((point) => point < 0xd800 || point > 0xdfff))
    }).join('')
  }
}
