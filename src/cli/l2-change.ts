import { readTextFile } from '../config/machine-facts.ts'
import { readAdapterFile, readAdapterText } from '../config/runtime-adapter.ts'
import { parseDurationMs } from '../config/units.ts'
import { SystemClock } from '../core/clock.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { askEngine } from './engine-http.ts'
import { type AdapterAnswer, adapterPath } from './l2-answers.ts'
import { isGood, jobText, rateOf, ratioOf } from './l2-job.ts'
import { poll } from './poll.ts'
import { ProgressBar } from './progress-bar.ts'
import { usageError } from './report-error.ts'
import { shortBytes } from './short-texts.ts'

/** The engine gives an adapter 15 s to open, and 5 s each to let go and to close. */
const CHANGE_TIMEOUT_MS = 30_000

interface RemovedAnswer {
  readonly left: Readonly<Record<string, number>>
  readonly is_closed: boolean
  readonly close_error: string
  readonly returns_at_start: boolean
}

/** `kvtier l2 add|drain|undrain|remove`: the life of an adapter of a running engine. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const verb = call.spec.name.split(' ')[1]!
  if (verb === 'add') return add(call)
  if (verb === 'drain') return drain(call)
  return verb === 'undrain' ? undrain(call) : remove(call)
}

async function add(call: CommandCall): Promise<ExitCode> {
  const given = givenAdapter(call)
  const added = (await askEngine(call, '/v1/l2/adapters', given, 'POST', CHANGE_TIMEOUT_MS)) as AdapterAnswer
  answer(call, added, () => {
    const holds = added.objects === 0 ? '' : ` It holds ${added.objects} objects, ${shortBytes(added.usage_bytes)}.`
    const kept = added.is_kept ? 'is kept for the next start' : 'not kept: the configuration has one of this name'
    return `${added.name} is active, and ${kept}.${holds}`
  })
  return 0
}

/** The options of an adapter: typed, or from a file. @throws CacheError CONFIG_INVALID, BAD_REQUEST */
function givenAdapter(call: CommandCall): object {
  const text = call.positionals[0]
  const { file } = call.options
  if ((text === undefined) === (file === undefined)) {
    throw usageError('l2 add needs an ADAPTER such as name=big,type=filesystem,capacity=1TiB, or --file')
  }
  if (text !== undefined) return readAdapterText(text)
  return readAdapterFile(String(file), readTextFile)
}

async function drain(call: CommandCall): Promise<ExitCode> {
  const name = call.positionals[0]!
  const { deadline, 'evacuate-to': evacuateTo } = call.options
  if (call.options.rate !== undefined && evacuateTo === undefined)
    throw usageError('--rate goes with --evacuate-to', '--rate')
  const body = {
    ...(deadline === undefined ? {} : { deadline_ms: deadlineOf(deadline) }),
    ...(evacuateTo === undefined ? {} : { evacuate_to: evacuateTo }),
    ...rateOf(call),
  }
  const begun = (await askEngine(call, adapterPath(name, '/drain'), body)) as AdapterAnswer
  if (call.options.wait !== true) {
    answer(call, begun, () => `${name} drains; kvtier l2 list shows how far it is.`)
    return 0
  }
  const ended = await waitForDrain(call, begun)
  answer(call, ended, () => drainText(ended))
  return ended.drain?.phase === 'drained' && (evacuateTo === undefined || isEvacuated(ended)) ? 0 : 1
}

function isEvacuated({ evacuation }: AdapterAnswer): boolean {
  return evacuation !== null && isGood(evacuation)
}

function deadlineOf(text: string | true): number {
  const ms = text === true ? undefined : parseDurationMs(text)
  if (ms !== undefined) return ms
  throw usageError(`--deadline is "${text}"; write a time such as 30s, 10m or 2h`, '--deadline')
}

/** Draws a bar until the drain has ended, or the user has had enough: then it goes on by itself. */
async function waitForDrain(call: CommandCall, begun: AdapterAnswer): Promise<AdapterAnswer> {
  const bar = new ProgressBar(call.terminal, new SystemClock(), `drain ${begun.name}`)
  const workOf = (one: AdapterAnswer): number => one.inflight_stores + one.inflight_loads + one.abandoned
  const work = workOf(begun)
  const show = (one: AdapterAnswer): void => {
    const { evacuation } = one
    if (evacuation?.state === 'running') bar.update(ratioOf(evacuation), evacuation.objects, 'objects')
    else bar.update(work === 0 ? 1 : 1 - workOf(one) / work, work - workOf(one), 'batches')
  }
  const ask = async () => (await askEngine(call, adapterPath(begun.name))) as AdapterAnswer
  const isEnded = (one: AdapterAnswer) => one.drain?.phase !== 'waiting'
  const adapter = await poll(begun, isEnded, ask, show).finally(() => bar.finish())
  if (adapter.drain?.phase === 'waiting') call.terminal.log(`${begun.name} goes on draining.`)
  return adapter
}

function drainText(adapter: AdapterAnswer): string {
  const { name, state, drain: progress, evacuation } = adapter
  const lines: string[] = []
  if (progress === null) lines.push(`${name} is ${state}: somebody ended the drain.`)
  else if (progress.phase === 'drained') lines.push(`${name} is drained: kvtier l2 remove ${name} detaches it.`)
  else {
    const { inflight_stores: stores, inflight_loads: loads, abandoned } = adapter
    const left = `${stores} stores, ${loads} loads and ${abandoned} abandoned batches in flight`
    const bytes = progress.bytes_left > 0 ? `, ${shortBytes(progress.bytes_left)} not copied` : ''
    lines.push(`${name} is not drained: ${left}${bytes}.`)
    lines.push(`Drain it again with a longer --deadline, undrain it, or remove it with --force.`)
  }
  if (evacuation !== null) lines.push(jobText(evacuation))
  return lines.join('\n')
}

async function undrain(call: CommandCall): Promise<ExitCode> {
  const name = call.positionals[0]!
  const adapter = (await askEngine(call, adapterPath(name, '/undrain'), undefined, 'POST')) as AdapterAnswer
  answer(call, adapter, () => `${name} is active again.`)
  return 0
}

async function remove(call: CommandCall): Promise<ExitCode> {
  const name = call.positionals[0]!
  const path = `${adapterPath(name)}${call.options.force === true ? '?force=true' : ''}`
  const removed = (await askEngine(call, path, undefined, 'DELETE', CHANGE_TIMEOUT_MS)) as RemovedAnswer
  answer(call, removed, () => removedText(name, removed))
  return 0
}

function removedText(name: string, { left, is_closed, close_error, returns_at_start }: RemovedAnswer): string {
  const lines = [`${name} is detached; its objects stay where they are.`]
  const ended = (left.stores ?? 0) + (left.loads ?? 0) + (left.others ?? 0) + (left.abandoned ?? 0)
  if (ended > 0) lines.push(`Ended in flight: ${left.stores} stores, ${left.loads} loads, ${left.others} others.`)
  if (!is_closed) lines.push('Its backend did not close in time and was left to itself.')
  if (close_error !== '') lines.push(`It closed with an error: ${close_error}`)
  if (returns_at_start) lines.push('It is in the configuration: the next start attaches it again.')
  return lines.join('\n')
}
