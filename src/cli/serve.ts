import { type RunningEngine, startEngine } from '../app/start-stop.ts'
import { packageVersion } from '../app/version.ts'
import type { ServeConfig } from '../config/load-config.ts'
import { formatBytes } from '../config/units.ts'
import { SystemClock } from '../core/clock.ts'
import { createLogger } from '../server/http/logger.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { ProgressBar } from './progress-bar.ts'
import { loadServeConfig } from './serve-config.ts'
import { shortBytes } from './short-texts.ts'
import { onStopSignal } from './stop-signal.ts'

const VERSION = packageVersion()

/** `kvtier serve`: runs the engine until SIGINT or SIGTERM. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const { options: config, warnings } = loadServeConfig(call)
  call.terminal.endsUnread = false
  const logger = createLogger(config.general.logLevel)
  for (const warning of warnings) logger.warn(warning)
  const bar = new ProgressBar(call.terminal, new SystemClock(), 'backing L1 with memory')
  const fatal = Promise.withResolvers<unknown>()
  const stop = Promise.withResolvers<{ name: string }>()
  onStopSignal(new SystemClock(), (name) => stop.resolve({ name }))
  const engine = await startEngine({
    config,
    version: VERSION,
    logger,
    onProgress: (done, bytes) => bar.update(done / bytes, done, 'B'),
    onFatal: fatal.resolve,
  }).finally(() => bar.finish())
  answer(call, { ...engine.addresses, version: VERSION, simulated: engine.simulated }, () => greeting(config, engine))
  const end = await Promise.race([stop.promise, fatal.promise.then((error) => ({ error }))])
  if ('error' in end) logger.fatal({ err: end.error }, 'the engine cannot go on')
  else call.terminal.log(`kvtier: ${end.name}, stopping`)
  await engine.stop()
  return 'error' in end ? 1 : 0
}

function greeting(config: ServeConfig, { addresses, simulated, takenOver }: RunningEngine): string {
  const adapters = config.l2.adapters.map(({ name, backend }) => `${name} (${backend.type})`)
  const taken = takenOver === null ? '' : `, ${sizeText(takenOver.bytes)} of it taken over`
  const lines = [
    `kvtier ${VERSION}, pid ${addresses.pid}`,
    `  HTTP API  http://${addresses.http}`,
    `  MP wire   tcp://${addresses.mp}`,
    ...(addresses.metrics === undefined
      ? []
      : [`  metrics   ${config.prometheus.certFile === '' ? 'http' : 'https'}://${addresses.metrics}/metrics`]),
    ...(config.push.endpoint === '' ? [] : [`  push      ${config.push.endpoint} (OTLP/HTTP)`]),
    `  L1        ${sizeText(config.l1.capacityBytes)} of host memory${taken}`,
    `  L2        ${adapters.length === 0 ? 'none' : adapters.join(', ')}`,
    `  data      ${config.general.dataDir}`,
    ...simulated.map((part) => `  simulated ${part}`),
  ]
  return lines.join('\n')
}

/** As it may be written where that is short, else rounded. */
function sizeText(bytes: number): string {
  return bytes % 2 ** 20 === 0 ? formatBytes(bytes) : shortBytes(bytes)
}
