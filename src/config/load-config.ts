import { CacheError } from '../core/errors.ts'
import type { AdapterOptions } from '../l2/options.ts'
import { adaptersField } from './adapter-fields.ts'
import { engineFields } from './engine-fields.ts'
import type { FieldTable } from './fields.ts'
import { generalFields } from './general-fields.ts'
import { l0Fields } from './l0-fields.ts'
import { l1Fields } from './l1-fields.ts'
import { type LoadedOptions, loadOptions, type OptionInputs, type OptionsOf } from './load-options.ts'
import { printable } from './option-names.ts'
import { httpFields, laterFields, mpFields, prometheusFields } from './server-fields.ts'
import { transferFields } from './transfer-fields.ts'

/** Every option of `serve`. Derived defaults look at earlier rows, so the order matters. */
export const serveTables = {
  general: generalFields,
  engine: engineFields,
  http: httpFields,
  mp: mpFields,
  prometheus: prometheusFields,
  l0: l0Fields,
  l1: l1Fields,
  l2: { adapters: adaptersField } satisfies FieldTable<{ readonly adapters: readonly AdapterOptions[] }>,
  transfer: transferFields,
  later: laterFields,
} as const

export type ServeConfig = OptionsOf<typeof serveTables>

/**
 * Reads and checks the options of `serve`.
 *
 * @throws CacheError CONFIG_INVALID, one line that names the option, the value and the fix.
 */
export function loadConfig(inputs: OptionInputs): LoadedOptions<typeof serveTables> {
  const loaded = loadOptions(serveTables, inputs)
  const extra = loaded.positionals[0]
  if (extra !== undefined)
    throw invalid(printable(extra), `"${printable(extra)}" is not expected here; options start with --`)
  checkTogether(loaded.options)
  return loaded
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
  if (options.transfer.loadBudgetBytes > l1.capacityBytes) {
    throw invalid('--transfer-load-budget', '--transfer-load-budget is larger than --l1-size: write at most that')
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
