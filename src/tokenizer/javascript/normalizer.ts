import * as library from '@huggingface/tokenizers'
import { lowerCase, normalForm, officialExpression, withoutAccents, withoutControls } from './official-unicode.ts'

/** Turns an expression of Oniguruma's into one of JavaScript's. The package has it, and its declarations do not. */
const { SplitPreTokenizer } = library as unknown as {
  SplitPreTokenizer: new (step: object) => { readonly pattern: RegExp }
}

/** One step of tokenizer.json, as it was read. */
export type Step = Readonly<Record<string, unknown>> | null

/** What a tokenizer makes of a text before it is split. */
export type Normalize = (text: string) => string

/**
 * The normalizer of a tokenizer.json.
 *
 * @throws Error for a step that is not known to do here what it does in the official library.
 */
export function normalizerOf(step: Step): Normalize {
  if (step === null || step === undefined) return (text) => text
  switch (step.type) {
    case 'Sequence': {
      const steps = (step.normalizers as Step[]).map(normalizerOf)
      return (text) => steps.reduce((rest, normalize) => normalize(rest), text)
    }
    case 'NFC':
    case 'NFD':
    case 'NFKC':
    case 'NFKD': {
      const form = step.type
      return (text) => normalForm(text, form)
    }
    case 'Lowercase':
      return lowerCase
    case 'Prepend':
      return (text) => (text === '' ? '' : `${step.prepend}${text}`)
    case 'Replace':
      return replacer(step)
    case 'BertNormalizer':
      return bertNormalizer(step)
    default:
      throw unknownStep('normalizer', step)
  }
}

/** What a pattern of tokenizer.json finds. */
export function patternOf(pattern: unknown): RegExp {
  const { String: words, Regex: expression } = pattern as { String?: string; Regex?: string }
  if (typeof words === 'string') return new RegExp(RegExp.escape(words), 'gu')
  return new SplitPreTokenizer({ pattern: { Regex: officialExpression(expression!) } }).pattern
}

export function unknownStep(part: string, step: Step): Error {
  return new Error(`it does not do the ${part} ${JSON.stringify(step).slice(0, 100)} as the official library does`)
}

function replacer(step: NonNullable<Step>): Normalize {
  const pattern = patternOf(step.pattern)
  const content = String(step.content)
  return (text) => text.replace(pattern, () => content)
}

/** Letters that BERT takes for Chinese: each is a word. */
const CHINESE =
  /[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u{20000}-\u{2a6df}\u{2a700}-\u{2b81f}\u{2b920}-\u{2ceaf}\u{2f800}-\u{2fa1f}]/gu

function bertNormalizer(step: NonNullable<Step>): Normalize {
  const { clean_text: cleans, handle_chinese_chars: splits, lowercase: lowers, strip_accents: strips } = step
  return (text) => {
    let rest = cleans === true ? withoutControls(text) : text
    if (splits === true) rest = rest.replace(CHINESE, ' $& ')
    if ((strips ?? lowers) === true) rest = withoutAccents(rest)
    return lowers === true ? lowerCase(rest) : rest
  }
}
