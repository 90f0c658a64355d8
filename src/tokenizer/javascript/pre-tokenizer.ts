import { patternOf, type Step, unknownStep } from './normalizer.ts'
import { bertWords } from './official-unicode.ts'

/** The words of a text. @param isFirst whether it is the beginning of the whole. */
export type Split = (text: string, isFirst: boolean) => readonly string[]

/**
 * The pre-tokenizer of a tokenizer.json.
 *
 * @throws Error for a step that is not known to do here what it does in the official library.
 */
export function preTokenizerOf(step: Step): Split {
  if (step === null || step === undefined) return (text) => [text]
  switch (step.type) {
    case 'Sequence': {
      const steps = (step.pretokenizers as Step[]).map(preTokenizerOf)
      const splitAll = (words: readonly string[], split: Split, isFirst: boolean) =>
        words.flatMap((word, at) => split(word, isFirst && at === 0))
      return (text, isFirst) => steps.reduce((words, split) => splitAll(words, split, isFirst), [text])
    }
    case 'Split': {
      const pattern = patternOf(step.pattern)
      const behavior = BEHAVIORS[String(step.behavior)]
      if (behavior === undefined) throw unknownStep('pre-tokenizer', step)
      return (text) => behavior(partsOf(text, pattern, step.invert === true))
    }
    case 'ByteLevel':
      return byteLevel(step)
    case 'BertPreTokenizer':
      return bertWords
    case 'Metaspace':
      return metaspace(step)
    case 'WhitespaceSplit':
      return (text) => text.match(/\P{White_Space}+/gu) ?? []
    default:
      throw unknownStep('pre-tokenizer', step)
  }
}

/** A part of a text: what a pattern found, or what stands between. */
interface Part {
  readonly text: string
  readonly isFound: boolean
}

/** What becomes of that which a pattern found. */
const BEHAVIORS: Readonly<Record<string, (parts: readonly Part[]) => string[]>> = {
  Isolated: (parts) => parts.map(({ text }) => text),
  Removed: (parts) => parts.filter(({ isFound }) => !isFound).map(({ text }) => text),
  MergedWithPrevious: (parts) => merged(parts, (part, before) => part.isFound && !before.isFound),
  MergedWithNext: (parts) => merged(parts, (part, before) => before.isFound && !part.isFound),
  Contiguous: (parts) => merged(parts, (part, before) => part.isFound === before.isFound),
}

function partsOf(text: string, pattern: RegExp, isInverted: boolean): Part[] {
  const parts: Part[] = []
  let end = 0
  const add = (part: string, isFound: boolean) => {
    if (part !== '') parts.push({ text: part, isFound: isFound !== isInverted })
  }
  for (const { 0: found, index } of text.matchAll(pattern)) {
    add(text.slice(end, index), false)
    add(found, true)
    end = index + found.length
  }
  add(text.slice(end), false)
  return parts
}

/** @param joins whether a part continues the one before it. */
function merged(parts: readonly Part[], joins: (part: Part, before: Part) => boolean): string[] {
  const words: string[] = []
  for (const [at, part] of parts.entries()) {
    if (at > 0 && joins(part, parts[at - 1]!)) words[words.length - 1] += part.text
    else words.push(part.text)
  }
  return words
}

const GPT2_SPLIT = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/** Bytes as letters: those that can be seen as themselves, the others from U+0100 on. */
const BYTE_LETTERS = (() => {
  const isSeen = (byte: number) => (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad)
  let next = 0x100
  return Array.from({ length: 256 }, (_, byte) => String.fromCharCode(isSeen(byte) ? byte : next++))
})()

function byteLevel({ add_prefix_space: addsSpace, use_regex: usesRegex }: NonNullable<Step>): Split {
  const pattern = usesRegex === false ? null : patternOf({ Regex: GPT2_SPLIT })
  const lettersOf = (word: string) => {
    let letters = ''
    for (const byte of Buffer.from(word)) letters += BYTE_LETTERS[byte]
    return letters
  }
  return (text) => {
    const whole = addsSpace === true && !text.startsWith(' ') ? ` ${text}` : text
    const words = pattern === null ? [whole] : partsOf(whole, pattern, false).map((part) => part.text)
    return words.map(lettersOf)
  }
}

function metaspace(step: NonNullable<Step>): Split {
  const { replacement, prepend_scheme: scheme = 'always', split = true } = step as Record<string, unknown>
  const mark = String(replacement)
  const pattern = new RegExp(RegExp.escape(mark), 'gu')
  return (text, isFirst) => {
    const marked = text.replaceAll(' ', mark)
    const prepends = !marked.startsWith(mark) && (scheme === 'always' || (scheme === 'first' && isFirst))
    const whole = prepends ? mark + marked : marked
    return split === true ? BEHAVIORS.MergedWithNext!(partsOf(whole, pattern, false)) : [whole]
  }
}
