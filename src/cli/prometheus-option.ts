import { PrometheusApi } from '../fleet/prometheus-api.ts'
import type { CommandCall, OptionSpec } from './command.ts'
import { usageError } from './report-error.ts'
import { tokenOf } from './token-file-option.ts'

/** The options of commands that ask a Prometheus server. */
export const PROMETHEUS_OPTION: OptionSpec = {
  name: 'prometheus',
  value: 'URL',
  help: 'A Prometheus server, such as http://127.0.0.1:9091.',
}

/** What an empty answer of a fleet query means: the interface document's own words. */
export const NO_TRAFFIC =
  'No series: no traffic has reached an engine yet, or this server scrapes none (or gets no push of one).'

/** The server of `--prometheus`; undefined without it. @throws CacheError CONFIG_INVALID */
export function prometheusOf(call: CommandCall): PrometheusApi | undefined {
  const url = call.options.prometheus
  if (url === undefined) return undefined
  if (url === true || !URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    throw usageError(`--prometheus is "${url}"; write an address such as http://127.0.0.1:9091`, '--prometheus')
  }
  return new PrometheusApi(url, tokenOf(call))
}
