import type { CacheError } from '../core/errors.ts'
import { bundledModels } from './bundled-models.ts'
import { findModels, type ModelFiles } from './model-files.ts'

/** What the directories hold, by model. */
export interface ModelCatalogue {
  /** In order of names. */
  readonly models: ReadonlyMap<string, ModelFiles>
  /** Models whose files cannot be read, and why; none of these is in `models`. */
  readonly broken: ReadonlyMap<string, CacheError>
}

/**
 * Every model that has a tokenizer. A directory's model goes before a bundled one of its name, and an earlier directory's
 * before a later one's; one that is broken hides none that works.
 *
 * @throws CacheError CONFIG_INVALID when a directory cannot be read.
 */
export async function allModels(directories: readonly string[]): Promise<ModelCatalogue> {
  const models = new Map<string, ModelFiles>()
  const broken = new Map<string, CacheError>()
  for (const directory of directories) {
    for (const { model, files } of await findModels(directory)) {
      if (!('stamp' in files)) broken.set(model, broken.get(model) ?? files)
      else if (!models.has(model)) models.set(model, files)
    }
  }
  for (const files of await bundledModels()) if (!models.has(files.model)) models.set(files.model, files)
  for (const model of models.keys()) broken.delete(model)
  return { models: new Map([...models].sort(([left], [right]) => (left < right ? -1 : 1))), broken }
}
