import { resolve } from 'node:path'
import {
  type AdapterLimits,
  type AdapterOptions,
  type BackendOptions,
  FILESYSTEM_DEFAULT,
  isAdapterName,
  ADAPTER_LIMITS_DEFAULT as LIMITS,
} from '../l2/options.ts'
import { type AdapterEntry, parseKeys } from './adapters/adapter-entry.ts'
import {
  BACKEND_TYPES,
  backendType,
  exclusiveOf,
  fieldsOfType,
  INNER_TYPES,
  innerType,
  parseBackend,
  requiredKeys,
  withoutSecrets,
} from './adapters/backends.ts'
import { bytes, derived, duration, type Field, integer, type Known, oneOf, Refusal } from './fields.ts'
import { suggestion } from './option-names.ts'
import { formatDurationMs } from './units.ts'

const GIB = 1024 ** 3
/** Configured adapters at most. Further ones may be added while the engine runs. */
export const ADAPTERS_MAX = 8

/** The options of every adapter, whatever its type. A row's "flag" is its key within the adapter. */
export const limitFields = {
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
  storeBudgetBytes: bytes('store-budget', '0B', 'Bytes of stores in flight; 0 = --transfer-store-budget.'),
  storePendingBytes: bytes(
    'store-pending',
    '0B',
    'Bytes of shards that wait to be stored; 0 = --transfer-store-pending.',
  ),
  loadBudgetBytes: bytes('load-budget', '0B', 'L1 bytes of loads in flight; 0 = --transfer-load-budget.'),
  loadPendingBytes: bytes('load-pending', '0B', 'Bytes of loads that wait; 0 = --transfer-load-pending.'),
  admitTouches: integer(
    'admit-touches',
    LIMITS.admitTouches,
    { minimum: 1, maximum: 15 },
    'Store only chunks that were asked for this often, for disks that wear; 1 = all.',
  ),
  writePolicy: oneOf(
    'write',
    ['through', 'back'],
    LIMITS.writePolicy,
    'through: store chunks when they are committed; back: when they are among the oldest of a filling L1.',
  ),
  startPolicy: oneOf(
    'start',
    ['wait', 'fail'],
    LIMITS.startPolicy,
    'While its server is away at the start: wait = the engine starts without it and goes on trying; fail = the start ends.',
  ),
} satisfies { [K in keyof AdapterLimits]: Field<AdapterLimits[K]> }

/** The L2 adapters, in the order they are asked. Paths are filled in: `directory` is absolute. */
export const adaptersField: Field<readonly AdapterOptions[]> = {
  flag: '--l2',
  type: 'adapters',
  help: 'An L2 adapter, as name=NAME,type=filesystem,path=DIR,capacity=SIZE; `kvtier print adapters` has every type and its keys. May be given again, fastest first; none = no L2. In a file: a list of mappings.',
  isRepeatable: true,
  default: derived('disk: filesystem, DATA_DIR/l2/disk, min(10GiB, half the free disk)', defaultAdapters),
  parse: parseAdapters,
  show: (adapters) => JSON.stringify(adapters.map((one) => ({ ...one, backend: withoutSecrets(one.backend) }))),
  schema: { type: 'array', maxItems: ADAPTERS_MAX, items: { oneOf: BACKEND_TYPES.flatMap(schemasOf) } },
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
  const claims = adapters.flatMap(({ backend }) => exclusiveOf(backend) ?? [])
  const claim = firstTwice(claims)
  if (claim !== undefined) throw new Refusal(`${claim} is used twice; give each adapter its own`)
  return adapters
}

/** The keys and values of one adapter as a flag has them: `name=NAME,type=...`. @throws Refusal */
export function splitEntry(entry: string): Record<string, unknown> {
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

/** Reads one adapter, as `--l2` or an entry of the file has it. @throws Refusal */
export function parseAdapter(given: unknown, known: Known): AdapterOptions {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new Refusal('write each adapter as a mapping with name, type and capacity')
  }
  const entry = given as AdapterEntry
  const type = backendType(entry.type)
  const keys = ['name', 'type', ...keysOf(type, innerType(type, entry)).map((field) => field.flag)]
  for (const key of Object.keys(entry)) {
    if (!keys.includes(key)) throw new Refusal(`a ${type} adapter has no ${key.slice(0, 40)}${suggestion(key, keys)}`)
  }
  const name = entry.name
  if (typeof name !== 'string' || !isAdapterName(name)) {
    throw new Refusal('write name as 1 to 64 letters, digits, ".", "_" or "-"')
  }
  const limits = parseKeys<AdapterLimits>(limitFields, entry, known)
  if (limits.writePolicy === 'back' && !['lru', 'adaptive'].includes(String(known.value('--l1-policy')))) {
    throw new Refusal('write=back needs --l1-policy lru or adaptive, for others name no chunks ahead of their eviction')
  }
  if (limits.writePolicy === 'back' && known.value('--l1-isolation') !== 'none') {
    throw new Refusal(
      'write=back needs --l1-isolation none, for it writes the oldest of all of L1, not of a part of it',
    )
  }
  return { name, backend: parseBackend(type, name, entry, known), limits }
}

function deadline(key: string, fallbackMs: number, help: string): Field<number> {
  return duration(key, formatDurationMs(fallbackMs), { minimumMs: 1, maximumMs: 3_600_000 }, help)
}

/** One schema for each type; of what wraps another, one for each that it may wrap. */
function schemasOf(type: BackendOptions['type']): Record<string, unknown>[] {
  return type === 'fault' ? INNER_TYPES.map((inner) => schemaOf(type, inner)) : [schemaOf(type, undefined)]
}

function schemaOf(type: BackendOptions['type'], inner: BackendOptions['type'] | undefined): Record<string, unknown> {
  const properties: Record<string, unknown> = {
    name: {
      type: 'string',
      pattern: '^[A-Za-z0-9._-]{1,64}$',
      description: 'Unique; the label l2_name of its metrics.',
    },
    type: { const: type },
  }
  for (const field of keysOf(type, inner)) properties[field.flag] = { ...field.schema, description: field.help }
  if (inner !== undefined) properties['inner-type'] = { const: inner }
  const required = ['name', 'type', ...Object.keys(requiredKeys(type, inner))]
  return { type: 'object', required, properties, additionalProperties: false }
}

/** Every key of an adapter of a type, besides name and type. */
function keysOf(type: BackendOptions['type'], inner: BackendOptions['type'] | undefined): readonly Field<unknown>[] {
  return [...fieldsOfType(type, inner), ...(Object.values(limitFields) as Field<unknown>[])]
}

function firstTwice(names: readonly string[]): string | undefined {
  return names.find((name, at) => names.indexOf(name) !== at)
}
