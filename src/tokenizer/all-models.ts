import { bundledModels } from './bundled-models.ts'
import { findModels, type ModelFiles } from './model-files.ts'

/**
 * Every model that has a tokenizer, in order of names. A directory's model goes before a bundled one of its name, and
 * an earlier directory's before a later one's.
 *
 * @param onBroken told of a model whose files cannot be read; it is left out.
 * @throws CacheError CONFIG_INVALID when a directory cannot be read.
 */
export async function allModels(
  directories: readonly string[],
  onBroken: (model: string, error: unknown) => void,
): Promise<ModelFiles[]> {
  const models = new Map<string, ModelFiles>()
  const add = (files: ModelFiles) => void (models.has(files.model) || models.set(files.model, files))
  for (const directory of directories) for (const files of await findModels(directory, onBroken)) add(files)
  for (const files of await bundledModels()) add(files)
  return [...models.values()].sort((left, right) => (left.model < right.model ? -1 : 1))
}
