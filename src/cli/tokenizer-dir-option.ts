import { resolve } from 'node:path'
import type { CommandCall, OptionSpec } from './command.ts'

/** Where a command finds tokenizers, as `serve` does. */
export const TOKENIZER_DIR_OPTION: OptionSpec = {
  name: 'tokenizer-dir',
  value: 'DIR',
  isRepeatable: true,
  help: 'Directories of tokenizers, as serve takes them.',
}

/** Of --tokenizer-dir, else of the environment, as `serve` reads them; absolute. */
export function tokenizerDirs({ options }: CommandCall): string[] {
  const words = String(options['tokenizer-dir'] ?? process.env.KVTIER_TOKENIZER_DIR ?? '').split(',')
  return words
    .map((word) => word.trim())
    .filter((word) => word !== '')
    .map((word) => resolve(word))
}
