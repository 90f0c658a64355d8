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

/**
 * Tokens of a model's longest context: the least that config.json says, stretched by YaRN as it says, and no more than
 * `model_max_length` of tokenizer_config.json.
 *
 * @param config config.json, or null when there is none.
 * @returns null when neither says anything that can be a length.
 */
export function maxModelLen(config: Json | null, tokenizerConfig: Json): number | null {
  const text = isObject(config?.text_config) ? config.text_config : config
  const told = text === null ? [] : LENGTH_KEYS.map((key) => text[key]).filter(isLength)
  const ofModel = told.length === 0 ? null : (stretched(text!) ?? Math.min(...told))
  const ofTokenizer = isLength(tokenizerConfig.model_max_length) ? tokenizerConfig.model_max_length : null
  if (ofModel === null || ofTokenizer === null) return ofModel ?? ofTokenizer
  return Math.min(ofModel, ofTokenizer)
}

/** YaRN: the length that the model was trained with, times its factor. */
function stretched(config: Json): number | null {
  const rope = isObject(config.rope_scaling) ? config.rope_scaling : config.rope_parameters
  if (!isObject(rope) || (rope.rope_type ?? rope.type) !== 'yarn') return null
  const { factor, original_max_position_embeddings: original } = rope
  if (typeof factor !== 'number' || !isLength(original)) return null
  const length = Math.floor(original * factor)
  return isLength(length) ? length : null
}

function isLength(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value > 0 && value <= LENGTH_MAX
}

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
