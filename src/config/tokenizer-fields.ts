import { resolve } from 'node:path'
import type { TokenizerOptions } from '../tokenizer/options.ts'
import { boolean, bytes, derived, duration, type Field, type FieldTable, integer, list, oneOf } from './fields.ts'

export const tokenizerFields = {
  directories: directories(
    '--tokenizer-dir',
    'Directories of tokenizers: VENDOR/MODEL_NAME/tokenizer.json with tokenizer_config.json, or a cache of the model hub.',
  ),
  library: oneOf(
    '--tokenizer-library',
    ['auto', 'native', 'javascript'],
    'auto',
    'Which library tokenizes; auto takes the native one, and the one in JavaScript where that does not load.',
  ),
  processes: integer(
    '--tokenizer-processes',
    derived('half the number of CPUs, 1 to 4', ({ machine }) => Math.min(4, Math.max(1, Math.floor(machine.cpus / 2)))),
    { minimum: 1, maximum: 64 },
    'Processes that tokenize at most; they start when they are needed.',
  ),
  queueMax: integer(
    '--tokenizer-queue',
    256,
    { minimum: 1, maximum: 65_536 },
    'Requests that may wait for such a process; further ones are refused.',
  ),
  loadedMax: integer(
    '--tokenizer-models',
    4,
    { minimum: 1, maximum: 1024 },
    'Tokenizers that each process keeps in memory: those used last.',
  ),
  textBytesMax: bytes('--tokenizer-text-max', '1MiB', 'Length of a text at most, in UTF-8.', 1),
  deadlineMs: duration(
    '--tokenizer-timeout',
    '30s',
    { minimumMs: 100, maximumMs: 3_600_000 },
    'Time for one request in its process, the loading of the tokenizer included.',
  ),
  allowMessagesAlone: boolean(
    '--tokenizer-messages-alone',
    false,
    'POST /tokenize takes messages when the prompt is absent or empty, as vLLM does.',
  ),
  allowRequestTemplates: boolean(
    '--tokenizer-request-templates',
    false,
    'Requests may bring a chat template of their own.',
  ),
} satisfies FieldTable<TokenizerOptions>

/** Directories separated by commas, each made absolute against the working directory. */
function directories(flag: string, help: string): Field<readonly string[]> {
  const field = list(flag, [], help)
  const parse: typeof field.parse = (raw, known) => {
    return field.parse(raw, known).map((path) => resolve(known.machine.workingDirectory, path))
  }
  return { ...field, type: 'paths', parse }
}
