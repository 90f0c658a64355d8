import { parse as parseYaml } from 'yaml'
import { CacheError } from '../core/errors.ts'
import type { AdapterOptions } from '../l2/options.ts'
import { parseAdapter, splitEntry } from './adapter-fields.ts'
import { exclusiveOf, withoutSecrets } from './adapters/backends.ts'
import { type Field, type Known, Refusal } from './fields.ts'
import { type ServeConfig, serveTables } from './load-config.ts'
import { redact } from './redact.ts'

/**
 * Reads the options of an adapter that is added while the engine runs: the same table as that of the config file.
 *
 * @param given keys and values, as a config file has them.
 * @throws CacheError BAD_REQUEST, one line without secrets; `detail.field` names the key when it is known.
 */
export function readRuntimeAdapter(
  given: unknown,
  config: ServeConfig,
  inputs: Pick<Known, 'machine' | 'env'>,
): AdapterOptions {
  return refusing(() => parseAdapter(given, { ...inputs, value: (flag) => configured(config, flag) as never }))
}

/** The keys and values of `name=NAME,type=TYPE,...`, as `--l2` takes them. @throws CacheError BAD_REQUEST */
export function readAdapterText(text: string): Record<string, unknown> {
  return refusing(() => splitEntry(text))
}

/**
 * The keys and values of one adapter in a YAML or JSON file.
 *
 * @param readFile contents of the file of a path. May throw.
 * @throws CacheError CONFIG_INVALID
 */
export function readAdapterFile(path: string, readFile: (path: string) => string): Record<string, unknown> {
  let given: unknown
  try {
    given = parseYaml(readFile(path), { strict: true, uniqueKeys: true, maxAliasCount: 100 })
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? (error as Error).message.split('\n')[0]
    throw new CacheError('CONFIG_INVALID', `${path} cannot be read (${reason})`, { field: '--file' }, error)
  }
  if (typeof given === 'object' && given !== null && !Array.isArray(given)) return given as Record<string, unknown>
  const message = `${path} is not a mapping of options; write lines such as "name: big"`
  throw new CacheError('CONFIG_INVALID', message, { field: '--file' })
}

/** Options as people may see them. */
export function shownAdapter({ backend, limits }: AdapterOptions): Readonly<Record<string, unknown>> {
  return { ...withoutSecrets(backend), ...limits }
}

/** What no two adapters may share, in words; undefined when they may share all. */
export function claimOf({ backend }: AdapterOptions): string | undefined {
  return exclusiveOf(backend)
}

function configured(config: ServeConfig, flag: string): unknown {
  for (const [owner, table] of Object.entries(serveTables)) {
    for (const [name, field] of Object.entries(table) as [string, Field<unknown>][]) {
      if (field.flag === flag) return (config as Record<string, Record<string, unknown>>)[owner]![name]
    }
  }
  return undefined
}

function refusing<T>(read: () => T): T {
  try {
    return read()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const field = /^([\w-]+) is wrong:/.exec(error.message)?.[1] ?? 'adapter'
    throw new CacheError('BAD_REQUEST', redact(error.message), { field })
  }
}
