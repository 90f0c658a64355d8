import { CacheError } from '../core/errors.ts'
import type { AdapterOptions } from '../l2/options.ts'
import { activityFields } from './activity-fields.ts'
import { adaptersField } from './adapter-fields.ts'
import { engineFields } from './engine-fields.ts'
import type { FieldTable } from './fields.ts'
import { generalFields } from './general-fields.ts'
import { l0Fields } from './l0-fields.ts'
import { l1Fields } from './l1-fields.ts'
import { type LoadedOptions, loadOptions, type OptionInputs, type OptionsOf } from './load-options.ts'
import { printable } from './option-names.ts'
import { pushFields } from './push-fields.ts'
import { quotaFields } from './quota-fields.ts'
import { authFields, httpFields, mpFields, prometheusFields } from './server-fields.ts'
import { tokenizerFields } from './tokenizer-fields.ts'
import { transferFields } from './transfer-fields.ts'

const PAGE_BYTES = 4096

/** Every option of `serve`. Derived defaults look at earlier rows, so the order matters. */
export const serveTables = {
  general: generalFields,
  engine: engineFields,
  http: httpFields,
  auth: authFields,
  mp: mpFields,
  prometheus: prometheusFields,
  tokenizer: tokenizerFields,
  l0: l0Fields,
  l1: l1Fields,
  l2: { adapters: adaptersField } satisfies FieldTable<{ readonly adapters: readonly AdapterOptions[] }>,
  transfer: transferFields,
  quota: quotaFields,
  activities: activityFields,
  push: pushFields,
} as const

export type ServeConfig = OptionsOf<typeof serveTables>

/** What `serve` runs with. */
export interface LoadedConfig extends LoadedOptions<typeof serveTables> {
  /** What is fine but may surprise, in words for the log. */
  readonly warnings: readonly string[]
}

/**
 * Reads and checks the options of `serve`.
 *
 * @throws CacheError CONFIG_INVALID, one line that names the option, the value and the fix.
 */
export function loadConfig(inputs: OptionInputs): LoadedConfig {
  const loaded = loadOptions(serveTables, inputs)
  const extra = loaded.positionals[0]
  if (extra !== undefined)
    throw invalid(printable(extra), `"${printable(extra)}" is not expected here; options start with --`)
  const options = withWholeParts(withOneMetricsPath(loaded.options))
  checkTogether(options)
  return { ...loaded, options, warnings: pushWarnings(loaded) }
}

/** An endpoint means push, and then nothing is scraped. */
function withOneMetricsPath(options: ServeConfig): ServeConfig {
  return options.push.endpoint === '' ? options : { ...options, prometheus: { ...options.prometheus, enabled: false } }
}

/** Parts of L1 are segments of shared memory: whole pages, and as many. The size is rounded down to that. */
function withWholeParts(options: ServeConfig): ServeConfig {
  const { capacityBytes, isolation, isolationModels } = options.l1
  if (isolation === 'none') return options
  const unit = isolationModels * PAGE_BYTES
  return { ...options, l1: { ...options.l1, capacityBytes: Math.floor(capacityBytes / unit) * unit } }
}

function pushWarnings({ options, sources }: LoadedOptions<typeof serveTables>): string[] {
  if (options.push.endpoint === '') return []
  const isGiven = (flag: string) => sources.get(flag) !== 'default'
  const warnings: string[] = []
  if (options.prometheus.enabled && isGiven('--prometheus-enabled')) {
    warnings.push('--otlp-endpoint is set, so metrics are pushed and --prometheus-enabled is not followed')
  }
  if (!options.push.enabled && isGiven('--observability-enabled')) {
    warnings.push('--observability-enabled is false but --otlp-endpoint is set, so metrics are pushed')
  }
  return warnings
}

/** What no field can say alone. @throws CacheError CONFIG_INVALID */
export function checkTogether(options: ServeConfig): void {
  const { l1 } = options
  if (l1.evictionLowRatio > l1.evictionHighRatio) {
    const pair = `--l1-low is ${l1.evictionLowRatio} and --l1-high is ${l1.evictionHighRatio}`
    throw invalid('--l1-low', `${pair}: write a low that is not above the high`)
  }
  if (l1.ghostCapacityChunks >= l1.indexCapacityChunks) {
    const pair = `--l1-ghosts is ${l1.ghostCapacityChunks} and --l1-index-chunks is ${l1.indexCapacityChunks}`
    throw invalid('--l1-ghosts', `${pair}: write fewer ghosts than the index holds`)
  }
  if (l1.isolation === 'model' && l1.policy !== 'lru') {
    const why = 'each part of L1 evicts what was used least recently'
    throw invalid('--l1-policy', `--l1-isolation is model and --l1-policy is ${l1.policy}, but ${why}: write lru`)
  }
  if (options.transfer.loadBudgetBytes > l1.capacityBytes) {
    throw invalid('--transfer-load-budget', '--transfer-load-budget is larger than --l1-size: write at most that')
  }
  if (options.push.enabled && options.push.endpoint === '') {
    const fix = 'write --otlp-endpoint, such as http://collector:4318, or leave --observability-enabled out'
    throw invalid('--observability-enabled', `--observability-enabled is true but there is no endpoint: ${fix}`)
  }
  if ((options.push.certFile === '') !== (options.push.keyFile === '')) {
    throw invalid('--otlp-cert-file', '--otlp-cert-file and --otlp-key-file go together: write both or neither')
  }
  if ((options.prometheus.certFile === '') !== (options.prometheus.keyFile === '')) {
    const fix = '--prometheus-cert-file and --prometheus-key-file go together: write both or neither'
    throw invalid('--prometheus-cert-file', fix)
  }
  checkPorts(options)
}

/** Two surfaces on one port. @throws CacheError CONFIG_INVALID */
function checkPorts({ http, mp, prometheus }: ServeConfig): void {
  const surfaces = [
    { flag: '--http-port', ...http },
    { flag: '--mp-port', ...mp },
    ...(prometheus.enabled ? [{ flag: '--prometheus-port', ...prometheus }] : []),
  ]
  for (const [index, later] of surfaces.entries()) {
    for (const earlier of surfaces.slice(0, index)) {
      if (later.port === 0 || later.port !== earlier.port || !overlaps(later.host, earlier.host)) continue
      throw invalid(later.flag, `${later.flag} and ${earlier.flag} are both ${later.port}: write two ports`)
    }
  }
}

function overlaps(left: string, right: string): boolean {
  const any = ['0.0.0.0', '::']
  return left === right || any.includes(left) || any.includes(right)
}

function invalid(field: string, message: string): CacheError {
  return new CacheError('CONFIG_INVALID', message, { field })
}
