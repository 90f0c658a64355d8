/** Keys of config.json that tell how many tokens a model takes; vLLM reads the same ones. */
const LENGTH_KEYS = [
  'max_position_embeddings',
  'n_positions',
  'n_ctx',
  'max_seq_len',
  'seq_length',
  'seq_len',
  'model_max_length',
  'max_target_positions',
  'max_sequence_length',
  'max_seq_length',
]

/** Above this a length is no length: libraries write 1e30 for "unknown". */
const LENGTH_MAX = 2 ** 27

type Json = Readonly<Record<string, unknown>>

/** Kinds of RoPE whose length is told already, as vLLM has them; others stretch it by their factor. */
const TOLD_ROPES = new Set(['default', 'su', 'longrope', 'llama3', 'yarn', 'deepseek_yarn', 'deepseek_llama_scaling'])

/**
 * Tokens of a model's longest context: the least that config.json says, and no more than `model_max_length` of
 * tokenizer_config.json; stretched as the RoPE of config.json says. Of LongRoPE the length without it, which is what
 * vLLM takes unless it is told.
 *
 * @param config config.json, or null when there is none.
 * @returns null when neither says anything that can be a length.
 */
export function maxModelLen(config: Json | null, tokenizerConfig: Json): number | null {
  const text = isObject(config?.text_config) ? config.text_config : config
  const told = text === null ? [] : LENGTH_KEYS.map((key) => text[key])
  const rope = ropeOf(text)
  const yarn = rope?.kind === 'yarn' && isLength(rope.original) ? Math.floor(rope.original * rope.factor) : null
  const ofModel = yarn === null ? told : [yarn]
  const lengths = [...ofModel, tokenizerConfig.model_max_length].filter(isLength)
  if (lengths.length === 0) return null
  const original = text?.original_max_position_embeddings
  if (rope?.kind === 'longrope' && isLength(original)) return original
  const isStretched = rope !== null && !TOLD_ROPES.has(rope.kind) && ofModel.some(isLength) && !isGemma3(config)
  return Math.floor(Math.min(...lengths) * (isStretched ? rope.factor : 1))
}

interface Rope {
  readonly kind: string
  readonly factor: number
  /** Tokens before it was stretched. */
  readonly original: unknown
}

function ropeOf(config: Json | null): Rope | null {
  const rope = isObject(config?.rope_scaling) ? config.rope_scaling : config?.rope_parameters
  if (!isObject(rope)) return null
  const { factor, original_max_position_embeddings: original } = rope
  const isFactor = typeof factor === 'number' && factor > 0 && factor < LENGTH_MAX
  return { kind: String(rope.rope_type ?? rope.type ?? 'default'), factor: isFactor ? factor : 1, original }
}

/** Its length is told with the factor in it. */
function isGemma3(config: Json | null): boolean {
  return String(config?.model_type).includes('gemma3')
}

function isLength(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 && value <= LENGTH_MAX
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
