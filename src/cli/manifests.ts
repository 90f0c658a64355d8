import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { packageVersion } from '../app/version.ts'
import { CacheError } from '../core/errors.ts'
import { type EngineDefinition, readEngineDefinition } from '../fleet/engine-definition.ts'
import { helmChart } from '../fleet/kubernetes/chart.ts'
import { engineManifests, manifestText } from '../fleet/kubernetes/manifests.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'

/** `kvtier manifests FILE`: the Kubernetes objects of an engine definition, on stdout. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const file = call.positionals[0]!
  const definition = readEngineDefinition(read(file), file)
  for (const warning of definition.warnings) call.terminal.log(`kvtier: ${warning}`)
  if (typeof call.options.chart === 'string') return writeChart(call, call.options.chart, definition)
  const manifests = engineManifests(definition)
  answer(call, { manifests, warnings: definition.warnings }, () => manifestText(manifests).trimEnd())
  return 0
}

function writeChart(call: CommandCall, folder: string, definition: EngineDefinition): ExitCode {
  const files = helmChart(definition, packageVersion())
  try {
    for (const [path, text] of files) {
      mkdirSync(dirname(join(folder, path)), { recursive: true })
      writeFileSync(join(folder, path), text)
    }
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'it cannot be written'
    const message = `--chart is "${folder}": ${reason}; give a folder that can be written`
    throw new CacheError('CONFIG_INVALID', message, { field: '--chart' }, error)
  }
  answer(call, { chart: folder, files: [...files.keys()] }, () => `${folder}: a Helm chart of ${files.size} files`)
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
