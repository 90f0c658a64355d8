import { resolve } from 'node:path'
import {
  type AdapterLimits,
  type AdapterOptions,
  type BackendOptions,
  FILESYSTEM_DEFAULT,
  type FilesystemAdapterOptions,
  isAdapterName,
  ADAPTER_LIMITS_DEFAULT as LIMITS,
  MEMORY_DEFAULT,
} from '../l2/options.ts'
import { bytes, derived, duration, type Field, integer, type Known, oneOf, Refusal, text } from './fields.ts'
import { suggestion } from './option-names.ts'
import { formatDurationMs } from './units.ts'

const GIB = 1024 ** 3
const MIB = 1024 ** 2
/** Configured adapters at most. Further ones may be added while the engine runs. */
export const ADAPTERS_MAX = 8

// The options of one adapter. A row's "flag" is its key within the adapter.
const limitFields = {
  storeDeadlineMs: deadline('store-deadline', LIMITS.storeDeadlineMs, 'A store batch that takes longer is given up.'),
  loadDeadlineMs: deadline('load-deadline', LIMITS.loadDeadlineMs, 'A load batch that takes longer is given up.'),
  lookupDeadlineMs: deadline('lookup-deadline', LIMITS.lookupDeadlineMs, 'A lookup that takes longer is given up.'),
  abandonAfterMs: deadline('abandon-after', LIMITS.abandonAfterMs, 'Time to let go of memory after a deadline.'),
  retries: integer('retries', LIMITS.retries, { minimum: 0, maximum: 20 }, 'Further tries of a failed batch.'),
  retryDelayMs: deadline('retry-delay', LIMITS.retryDelayMs, 'Wait before the first retry.'),
  circuitFailures: integer(
    'circuit-failures',
    LIMITS.circuitFailures,
    { minimum: 1, maximum: 1000 },
    'Failed batches in a row before the adapter is left alone.',
  ),
  circuitOpenMs: deadline('circuit-open', LIMITS.circuitOpenMs, 'How long it is left alone.'),
} satisfies { [K in keyof AdapterLimits]: Field<AdapterLimits[K]> }

const filesystemFields = {
  directory: text('path', '', 'Directory of the objects. Default: l2/NAME in the data directory.'),
  durability: oneOf(
    'durability',
    ['fsync', 'checksum'],
    FILESYSTEM_DEFAULT.durability,
    'When an object counts as stored.',
  ),
  parallelism: integer(
    'parallelism',
    FILESYSTEM_DEFAULT.parallelism,
    { minimum: 1, maximum: 256 },
    'Objects written or read at a time.',
  ),
  quarantineFiles: integer(
    'quarantine-files',
    FILESYSTEM_DEFAULT.quarantineFiles,
    { minimum: 0, maximum: 65_536 },
    'Corrupt records kept for a look.',
  ),
} satisfies {
  [K in Exclude<keyof FilesystemAdapterOptions, 'type' | 'capacityBytes'>]: Field<FilesystemAdapterOptions[K]>
}

const capacityField = bytes('capacity', '10GiB', 'Bytes of objects at most.', MIB)

const KEYS: Readonly<Record<BackendOptions['type'], readonly Field<never>[]>> = {
  filesystem: [
    capacityField,
    ...Object.values(filesystemFields),
    ...Object.values(limitFields),
  ] as unknown as Field<never>[],
  memory: [capacityField, ...Object.values(limitFields)] as unknown as Field<never>[],
}

/** The L2 adapters, in the order they are asked. Paths are filled in: `directory` is absolute. */
export const adaptersField: Field<readonly AdapterOptions[]> = {
  flag: '--l2',
  type: 'adapters',
  help: 'An L2 adapter, as name=NAME,type=filesystem,path=DIR,capacity=SIZE or name=NAME,type=memory,capacity=SIZE; may be given again, fastest first; none = no L2. In a file: a list of mappings.',
  isRepeatable: true,
  default: derived('disk: filesystem, DATA_DIR/l2/disk, min(10GiB, half the free disk)', defaultAdapters),
  parse: parseAdapters,
  show: (adapters) => JSON.stringify(adapters),
  schema: { type: 'array', maxItems: ADAPTERS_MAX, items: { oneOf: [schemaOf('filesystem'), schemaOf('memory')] } },
}

function defaultAdapters(known: Known): readonly AdapterOptions[] {
  const directory = resolve(known.value<string>('--data-dir'), 'l2', 'disk')
  const half = Math.floor(known.machine.freeDiskBytes(directory) / 2)
  const backend = { ...FILESYSTEM_DEFAULT, directory, capacityBytes: Math.min(10 * GIB, half) }
  return [{ name: 'disk', backend, limits: LIMITS }]
}

// An array of mappings (file), an array of texts (flags), or one text with ";" (environment).
function parseAdapters(raw: unknown, known: Known): readonly AdapterOptions[] {
  const entries = typeof raw === 'string' ? raw.split(';') : raw
  if (!Array.isArray(entries)) throw new Refusal('write a list of adapters, each with name, type and capacity')
  if (entries.length === 1 && entries[0] === 'none') return []
  if (entries.length > ADAPTERS_MAX) throw new Refusal(`write at most ${ADAPTERS_MAX} adapters`)
  const adapters = entries.map((entry) => parseAdapter(typeof entry === 'string' ? splitEntry(entry) : entry, known))
  const name = firstTwice(adapters.map((adapter) => adapter.name))
  if (name !== undefined) throw new Refusal(`the name ${name} is used twice; give each adapter its own`)
  const directories = adapters.flatMap(({ backend }) => (backend.type === 'filesystem' ? [backend.directory] : []))
  const directory = firstTwice(directories)
  if (directory !== undefined) throw new Refusal(`the path ${directory} is used twice; give each adapter its own`)
  return adapters
}

function splitEntry(entry: string): Record<string, unknown> {
  const values: Record<string, unknown> = {}
  for (const part of entry.split(',')) {
    const equals = part.indexOf('=')
    if (equals <= 0) throw new Refusal('write name=NAME,type=filesystem,path=DIR,capacity=10GiB, or none')
    const key = part.slice(0, equals).trim()
    if (Object.hasOwn(values, key)) throw new Refusal(`${key} is written twice; write it once`)
    values[key] = part.slice(equals + 1).trim()
  }
  return values
}

function parseAdapter(entry: unknown, known: Known): AdapterOptions {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry)) {
    throw new Refusal('write each adapter as a mapping with name, type and capacity')
  }
  const given = entry as Readonly<Record<string, unknown>>
  const type = (Object.keys(KEYS) as BackendOptions['type'][]).find((word) => word === given.type)
  if (type === undefined) throw new Refusal(`write type as one of: ${Object.keys(KEYS).join(', ')}`)
  const keys = ['name', 'type', ...KEYS[type].map((field) => field.flag)]
  for (const key of Object.keys(given)) {
    if (!keys.includes(key)) throw new Refusal(`a ${type} adapter has no ${key.slice(0, 40)}${suggestion(key, keys)}`)
  }
  const name = given.name
  if (typeof name !== 'string' || !isAdapterName(name) || /^\.+$/.test(name)) {
    throw new Refusal('write name as 1 to 64 letters, digits, ".", "_" or "-"')
  }
  if (given.capacity === undefined) throw new Refusal(`write a capacity for ${name}, such as capacity=10GiB`)
  const limits = parseAll<AdapterLimits>(limitFields, given, known)
  const capacityBytes = parseKey(capacityField, given, known)
  if (type === 'memory') return { name, backend: { ...MEMORY_DEFAULT, capacityBytes }, limits }
  const { directory, ...rest } = parseAll<Omit<FilesystemAdapterOptions, 'type' | 'capacityBytes'>>(
    filesystemFields,
    given,
    known,
  )
  const path =
    directory === ''
      ? resolve(known.value<string>('--data-dir'), 'l2', name)
      : resolve(known.machine.workingDirectory, directory)
  return { name, backend: { type, ...rest, directory: path, capacityBytes }, limits }
}

function parseAll<T>(
  fields: { [K in keyof T]: Field<T[K]> },
  given: Readonly<Record<string, unknown>>,
  known: Known,
): T {
  const values: Partial<T> = {}
  for (const name of Object.keys(fields) as (keyof T)[]) values[name] = parseKey(fields[name], given, known)
  return values as T
}

function parseKey<T>(field: Field<T>, given: Readonly<Record<string, unknown>>, known: Known): T {
  if (given[field.flag] === undefined) return field.default as T
  try {
    return field.parse(given[field.flag], known)
  } catch (error) {
    if (error instanceof Refusal) throw new Refusal(`${field.flag} is wrong: ${error.message}`)
    throw error
  }
}

function deadline(key: string, fallbackMs: number, help: string): Field<number> {
  return duration(key, formatDurationMs(fallbackMs), { minimumMs: 1, maximumMs: 3_600_000 }, help)
}

function schemaOf(type: BackendOptions['type']): Record<string, unknown> {
  const properties: Record<string, unknown> = {
    name: {
      type: 'string',
      pattern: '^[A-Za-z0-9._-]{1,64}$',
      description: 'Unique; the label l2_name of its metrics.',
    },
    type: { const: type },
  }
  for (const field of KEYS[type]) properties[field.flag] = { ...field.schema, description: field.help }
  return { type: 'object', required: ['name', 'type', 'capacity'], properties, additionalProperties: false }
}

function firstTwice(names: readonly string[]): string | undefined {
  return names.find((name, at) => names.indexOf(name) !== at)
}
