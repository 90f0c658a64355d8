import { readFileSync } from 'node:fs'
import { CacheError } from '../core/errors.ts'
import { readEngineDefinition } from '../fleet/engine-definition.ts'
import { engineManifests, manifestText } from '../fleet/kubernetes/manifests.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'

/** `kvtier manifests FILE`: the Kubernetes objects of an engine definition, on stdout. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const file = call.positionals[0]!
  const definition = readEngineDefinition(read(file), file)
  for (const warning of definition.warnings) call.terminal.log(`kvtier: ${warning}`)
  const manifests = engineManifests(definition)
  answer(call, { manifests, warnings: definition.warnings }, () => manifestText(manifests).trimEnd())
  return 0
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable'
    throw new CacheError('CONFIG_INVALID', `${file} cannot be read (${reason}); give a file`, { field: 'FILE' }, error)
  }
}
