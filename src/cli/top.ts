import { SystemClock } from '../core/clock.ts'
import { fleetReport } from '../fleet/fleet-report.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { askEngine } from './engine-http.ts'
import { type EngineStatus, engineRates, engineView } from './engine-view.ts'
import { poll } from './poll.ts'
import { prometheusOf } from './prometheus-option.ts'
import { fleetTable } from './query.ts'
import { usageError } from './report-error.ts'

const CLEAR = '\x1b[H\x1b[2J'

/** What is shown: for scripts and for people. */
interface Frame {
  readonly json: object
  readonly text: string
}

/** `kvtier top`: a live view of one engine, or of a fleet through its Prometheus server. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const clock = new SystemClock()
  const intervalMs = intervalOf(call)
  const frames = framesOf(call, clock)
  const next = async () => (await frames.next()).value
  const first = await next()
  if (call.terminal.hasColour && !call.isJson && call.options.once !== true) {
    await poll(
      first,
      () => false,
      next,
      ({ text }) => call.terminal.out(`${CLEAR}${text}`),
      intervalMs,
    )
    return 0
  }
  // One reading has no rates: a second one follows.
  const second = await poll(
    first,
    (frame) => frame !== first,
    next,
    () => {},
    Math.min(intervalMs, 1_000),
  )
  answer(call, second.json, () => second.text)
  return 0
}

function intervalOf(call: CommandCall): number {
  const seconds = Number(call.options.interval ?? 2)
  if (seconds >= 0.5 && seconds <= 3_600) return seconds * 1_000
  throw usageError(`--interval is "${call.options.interval}"; write seconds from 0.5 to 3600`, '--interval')
}

async function* framesOf(call: CommandCall, clock: SystemClock): AsyncGenerator<Frame, never> {
  const api = prometheusOf(call)
  if (api !== undefined) {
    for (;;) {
      const engines = await fleetReport(api, 'engine')
      const models = await fleetReport(api, 'model')
      const text = `${fleetTable(engines, 'engine')}\n\n${fleetTable(models, 'model')}`
      yield { json: { engines, models }, text }
    }
  }
  let before: { status: EngineStatus; atMs: number } | undefined
  for (;;) {
    const status = (await askEngine(call, '/status')) as EngineStatus
    const atMs = clock.nowMs()
    const rates = engineRates(before?.status, status, before === undefined ? 0 : (atMs - before.atMs) / 1_000)
    before = { status, atMs }
    yield { json: { status, rates }, text: engineView(status, rates) }
  }
}
