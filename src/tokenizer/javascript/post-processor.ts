import { type Step, unknownStep } from './normalizer.ts'

/** Special tokens that a model puts around every text. */
export interface Around {
  readonly before: readonly string[]
  readonly after: readonly string[]
}

const NOTHING: Around = { before: [], after: [] }

/**
 * What the post-processor of a tokenizer.json puts around one text.
 *
 * @throws Error for one that is not known.
 */
export function aroundOf(step: Step): Around {
  if (step === null || step === undefined) return NOTHING
  switch (step.type) {
    case 'ByteLevel':
      return NOTHING
    case 'BertProcessing':
    case 'RobertaProcessing': {
      const { cls, sep } = step as { cls?: [string, number]; sep?: [string, number] }
      return { before: [cls![0]], after: [sep![0]] }
    }
    case 'TemplateProcessing':
      return template(step)
    case 'Sequence':
      return (step.processors as Step[]).map(aroundOf).reduce(wrapped, NOTHING)
    default:
      throw unknownStep('post-processor', step)
  }
}

type Piece = { readonly SpecialToken?: { readonly id: string }; readonly Sequence?: object }

function template(step: NonNullable<Step>): Around {
  const pieces = step.single as readonly Piece[]
  const facts = (step.special_tokens ?? {}) as Record<string, { tokens?: string[] }>
  const namesOf = (some: readonly Piece[]) =>
    some.flatMap(({ SpecialToken: special }) => facts[special!.id]?.tokens ?? [special!.id])
  const text = pieces.findIndex(({ Sequence: sequence }) => sequence !== undefined)
  const isOdd = text < 0 || pieces.some(({ Sequence: sequence }, at) => at !== text && sequence !== undefined)
  if (isOdd) throw unknownStep('post-processor', step)
  return { before: namesOf(pieces.slice(0, text)), after: namesOf(pieces.slice(text + 1)) }
}

function wrapped(inner: Around, outer: Around): Around {
  return { before: [...outer.before, ...inner.before], after: [...inner.after, ...outer.after] }
}
