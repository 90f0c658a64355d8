import { resolve } from 'node:path'
import { generalFields } from '../config/general-fields.ts'
import { envOf } from '../config/option-names.ts'
import type { CommandCall, OptionSpec } from './command.ts'

/** `--data-dir` of the commands that look at the directory of an engine. */
export const DATA_DIR_OPTION: OptionSpec = {
  name: 'data-dir',
  value: 'DIR',
  help: 'Data directory of the engine; also KVTIER_DATA_DIR.',
  default: './kvtier-data',
}

/** Absolute path: the option, the environment or the default, as `serve` has it. */
export function dataDirOf(call: CommandCall): string {
  const given = call.options['data-dir'] ?? process.env[envOf(generalFields.dataDir.flag)]
  return resolve(typeof given === 'string' ? given : DATA_DIR_OPTION.default!)
}
