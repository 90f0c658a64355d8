import { resolve } from 'node:path'
import type { MachineFacts } from '../config/fields.ts'
import { bytes, type Field, integer, Refusal } from '../config/fields.ts'
import { loadConfig, type ServeConfig } from '../config/load-config.ts'
import { L1_POLICIES, type L1PolicyName } from '../l1/options.ts'
import { MOONCAKE_BLOCK_TOKENS } from '../replay/mooncake-trace.ts'
import type { CommandCall } from './command.ts'
import { REPLAY_MODEL } from './replay-options.ts'
import { usageError } from './report-error.ts'
import { tokenizerDirs } from './tokenizer-dir-option.ts'

export type Policy = L1PolicyName

/** A replay as it was asked for on the command line. */
export interface ReplaySettings {
  readonly file: string
  readonly format: 'mooncake' | 'agent-text'
  /** Whose tokenizer makes tokens of texts. */
  readonly model: string
  /** Absolute. */
  readonly tokenizerDirectories: readonly string[]
  readonly limit: number
  readonly partialBlocks: 'drop' | 'count'
  /** 0 = flat out. */
  readonly speed: number
  readonly overlaps: boolean
  readonly isMetadataOnly: boolean
  readonly tiers: { readonly l0: boolean; readonly l1: boolean; readonly l2: boolean }
  readonly policy: Policy
  readonly l0Bytes: number
  readonly l1Bytes: number
  /** 0 = L1 is sized in bytes. */
  readonly l1Chunks: number
  readonly l2Bytes: number
  /** Absolute; null = a temporary directory. */
  readonly l2Directory: string | null
  readonly blockTokens: number
  readonly blockBytes: number
  readonly prefillTokensPerSecond: number
  readonly decodeTokensPerSecond: number
  readonly verifyEvery: number
  readonly isSweep: boolean
  /** Exact LRU and Belady are asked for too. */
  readonly hasReference: boolean
  /** Empty = chosen from the trace. */
  readonly sweepChunks: readonly number[]
  /** -1 = not served. */
  readonly prometheusPort: number
}

const MIB = 1024 ** 2
const BIG = 1_000_000_000
const CHUNKS = { minimum: 16, maximum: 40_000_000 }
/** The engine's own chunks. */
const CHUNK_TOKENS = 256
const VERIFY_EVERY = { none: 0, sample: 64, all: 1 } as const

/** Reads the options of `replay`. @throws CacheError CONFIG_INVALID */
export function readReplaySettings(call: CommandCall): ReplaySettings {
  const { options } = call
  const count = (name: string, fallback: number, minimum = 1): number => {
    return read(call, integer(`--${name}`, fallback, { minimum, maximum: BIG }, ''))
  }
  const format = options.format === 'agent-text' ? 'agent-text' : 'mooncake'
  checkFormat(format, options)
  if (options['flat-out'] === true && options.speed !== undefined) {
    throw usageError('--flat-out and --speed exclude each other; give one of them', '--speed')
  }
  const isSweep = options.sweep === true
  const isFlatOut = options['flat-out'] === true || isSweep
  const blockTokens = format === 'mooncake' ? MOONCAKE_BLOCK_TOKENS : count('chunk-tokens', CHUNK_TOKENS)
  const blockBytes = blockTokens * count('kv-bytes-per-token', 64)
  const l1Chunks = options['l1-chunks'] === undefined ? 0 : read(call, integer('--l1-chunks', 0, CHUNKS, ''))
  return {
    file: call.positionals[0]!,
    format,
    model: String(options.model ?? REPLAY_MODEL),
    tokenizerDirectories: tokenizerDirs(call),
    limit: options.limit === undefined ? Number.POSITIVE_INFINITY : count('limit', 0),
    partialBlocks: options['partial-blocks'] === 'count' ? 'count' : 'drop',
    speed: isFlatOut ? 0 : readSpeed(call),
    overlaps: options.overlap === true || !isFlatOut,
    isMetadataOnly: options['metadata-only'] === true || isSweep,
    tiers: readTiers(call, isSweep),
    policy: (options.policy ?? 'lru') as Policy,
    l0Bytes: read(call, bytes('--l0-size', '256MiB', '', MIB)),
    l1Bytes: l1Chunks === 0 ? read(call, bytes('--l1-size', '1GiB', '', MIB)) : l1Chunks * blockBytes,
    l1Chunks,
    l2Bytes: read(call, bytes('--l2-size', '4GiB', '', MIB)),
    l2Directory: typeof options['l2-dir'] === 'string' ? resolve(options['l2-dir']) : null,
    blockTokens,
    blockBytes,
    prefillTokensPerSecond: count('prefill-rate', 20_000),
    decodeTokensPerSecond: count('decode-rate', 0, 0),
    verifyEvery: VERIFY_EVERY[(options.verify ?? 'sample') as keyof typeof VERIFY_EVERY],
    isSweep,
    hasReference: options.reference === true,
    sweepChunks: readSweepChunks(call),
    prometheusPort:
      options['prometheus-port'] === undefined
        ? -1
        : read(call, integer('--prometheus-port', 0, { minimum: 0, maximum: 65_535 }, '')),
  }
}

/** Options that go with one format only. */
function checkFormat(format: ReplaySettings['format'], options: CommandCall['options']): void {
  for (const name of ['model', 'tokenizer-dir', 'chunk-tokens']) {
    if (format === 'agent-text' || options[name] === undefined) continue
    throw usageError(`--${name} goes with --format agent-text; leave it out`, `--${name}`)
  }
  if (format === 'agent-text' && options['partial-blocks'] === 'count') {
    throw usageError(
      '--partial-blocks count goes with --format mooncake: texts are stored in whole chunks',
      '--partial-blocks',
    )
  }
}

function read<T>(call: CommandCall, field: Field<T>): T {
  const raw = call.options[field.flag.slice(2)]
  if (raw === undefined) return field.default as T
  try {
    return field.parse(raw, undefined as never)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw usageError(`${field.flag} is "${raw}": ${error.message}`, field.flag)
  }
}

function readSpeed(call: CommandCall): number {
  const speed = Number(call.options.speed ?? 1)
  if (speed > 0 && speed <= 1_000_000) return speed
  throw usageError(`--speed is "${call.options.speed}": write a number above 0, such as 60`, '--speed')
}

function readTiers(call: CommandCall, isSweep: boolean): ReplaySettings['tiers'] {
  const text = String(call.options.tiers ?? (isSweep ? 'l1' : 'l0,l1,l2'))
  const names = text.split(',').map((name) => name.trim())
  const isKnown = names.every((name) => ['l0', 'l1', 'l2'].includes(name)) && new Set(names).size === names.length
  if (!isKnown || !names.includes('l1')) {
    throw usageError(`--tiers is "${text}": write l1, with l0, l2 or both, such as l0,l1`, '--tiers')
  }
  if (isSweep && names.length > 1) throw usageError('--sweep is about L1 alone; leave --tiers out', '--tiers')
  return { l0: names.includes('l0'), l1: true, l2: names.includes('l2') }
}

function readSweepChunks(call: CommandCall): readonly number[] {
  const text = call.options['sweep-chunks']
  if (typeof text !== 'string') return []
  const sizes = text.split(',').map(Number)
  const isFine = sizes.every((size) => Number.isSafeInteger(size) && size >= CHUNKS.minimum && size <= CHUNKS.maximum)
  if (isFine) return sizes
  throw usageError(
    `--sweep-chunks is "${text}": write numbers of ${CHUNKS.minimum} and more, with commas`,
    '--sweep-chunks',
  )
}

/** The options of the engine under replay: those of `serve`, with sizes of its own. */
export function engineOptions(settings: ReplaySettings, machine: MachineFacts): ServeConfig {
  const { l1Bytes, blockBytes, blockTokens, l1Chunks } = settings
  const chunks = Math.ceil(l1Bytes / blockBytes)
  const flags: Record<string, string | number> = {
    'chunk-tokens': blockTokens,
    'l1-size': `${Math.max(l1Bytes, MIB)}B`,
    'l1-policy': settings.policy,
    'l1-index-chunks': indexChunks(chunks),
    'l1-index-shards': indexChunks(chunks),
    'l1-ghosts': Math.floor(indexChunks(chunks) / 4),
    'transfer-load-budget': `${Math.max(MIB, Math.floor(Math.max(l1Bytes, MIB) / 4))}B`,
    'l0-size': `${settings.l0Bytes}B`,
    'l0-block-tokens': blockTokens, // one block is one chunk
    'l0-blocks': Math.ceil(settings.l0Bytes / blockBytes),
    l2: 'none',
    ...(settings.tokenizerDirectories.length === 0 ? {} : { 'tokenizer-dir': settings.tokenizerDirectories.join(',') }),
  }
  const argv = Object.entries(flags).map(([name, value]) => `--${name}=${value}`)
  const { options } = loadConfig({ argv, env: {}, machine, readFile: () => '' })
  const extentBytes = l1Chunks === 0 ? 0 : l1Bytes // one length only: one extent holds exactly so many chunks
  const l1 = { ...options.l1, capacityBytes: l1Bytes, extentBytes }
  return { ...options, l1 }
}

function indexChunks(residentChunks: number): number {
  return Math.max(1024, 2 * residentChunks + 1024)
}

/** Policies that the engine has. */
export const POLICIES: readonly Policy[] = L1_POLICIES
