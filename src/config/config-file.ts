import { parse as parseYaml, YAMLParseError } from 'yaml'
import { CacheError } from '../core/errors.ts'
import { printable, SECTIONS, suggestion } from './option-names.ts'

/**
 * Reads a config file (YAML, of which JSON is a part) into its options: `{l1: {size: 4GiB}}` is `l1.size`.
 *
 * @param keys every key an option has.
 * @throws CacheError CONFIG_INVALID for what is no YAML, no mapping, or an unknown key.
 */
export function readConfigText(path: string, contents: string, keys: ReadonlySet<string>): Map<string, unknown> {
  const root = parseDocument(path, contents)
  const values = new Map<string, unknown>()
  if (root === null || root === undefined) return values
  if (!isMapping(root))
    throw invalid(path, `${path} is not a mapping of options; write lines such as "data-dir: ./data"`)
  for (const [name, value] of Object.entries(root)) {
    if (SECTIONS.includes(name)) addSection(path, values, name, value, keys)
    else addOption(path, values, name, value, keys)
  }
  return values
}

function parseDocument(path: string, contents: string): unknown {
  try {
    return parseYaml(contents, { strict: true, uniqueKeys: true, maxAliasCount: 100 })
  } catch (error) {
    if (!(error instanceof YAMLParseError) && !(error instanceof ReferenceError)) throw error
    const reason = error.message.split('\n')[0]!.replace(/:$/, '')
    throw new CacheError('CONFIG_INVALID', `${path} is not valid YAML or JSON: ${reason}`, { field: '--config' }, error)
  }
}

function addSection(
  path: string,
  values: Map<string, unknown>,
  section: string,
  value: unknown,
  keys: ReadonlySet<string>,
): void {
  if (value === null) return
  if (!isMapping(value)) throw invalid(section, `${section} in ${path} is not a mapping; write its options under it`)
  for (const [name, inner] of Object.entries(value)) addOption(path, values, `${section}.${name}`, inner, keys)
}

function addOption(
  path: string,
  values: Map<string, unknown>,
  key: string,
  value: unknown,
  keys: ReadonlySet<string>,
): void {
  if (!keys.has(key)) {
    const shown = printable(key)
    const flat = key.replace('.', '-')
    const asFlag = [...keys].find((known) => known.replace('.', '-') === flat)
    const hint = asFlag === undefined ? suggestion(key, keys) : `; did you mean ${asFlag}?`
    throw invalid(shown, `${shown} in ${path} is not an option${hint}`)
  }
  if (value === null) throw invalid(key, `${key} in ${path} has no value; write one or remove the line`)
  values.set(key, value)
}

function isMapping(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function invalid(field: string, message: string): CacheError {
  return new CacheError('CONFIG_INVALID', message, { field })
}
