import { parseBytes } from '../config/units.ts'
import { SystemClock } from '../core/clock.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { askEngine } from './engine-http.ts'
import type { JobAnswer } from './l2-answers.ts'
import { poll } from './poll.ts'
import { ProgressBar } from './progress-bar.ts'
import { usageError } from './report-error.ts'
import { shortBytes, shortDuration } from './short-texts.ts'
import { textTable } from './table.ts'

/** `kvtier l2 verify|stats|evacuate|jobs|cancel`: jobs of a running engine over all objects of an adapter. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const verb = call.spec.name.split(' ')[1]!
  if (verb === 'jobs') return listJobs(call)
  return verb === 'cancel' ? cancelJob(call) : runJob(call, verb as JobAnswer['kind'])
}

async function runJob(call: CommandCall, kind: JobAnswer['kind']): Promise<ExitCode> {
  const { to } = call.options
  if (kind === 'evacuate' && typeof to !== 'string') {
    throw usageError('l2 evacuate needs --to with the name of another adapter', '--to')
  }
  const order = {
    kind,
    adapter: call.positionals[0]!,
    ...(typeof to === 'string' ? { target: to } : {}),
    ...rateOf(call),
  }
  const started = (await askEngine(call, '/v1/l2/jobs', order)) as JobAnswer
  if (call.options.background === true) {
    answer(call, started, () => `${started.id} runs; kvtier l2 jobs shows it.`)
    return 0
  }
  const ended = await waitForJob(call, started)
  answer(call, ended, () => jobText(ended))
  return isGood(ended) ? 0 : 1
}

/** `--rate` as the HTTP API takes it. @throws CacheError CONFIG_INVALID */
export function rateOf(call: CommandCall): { rate_bytes?: number } {
  const text = call.options.rate
  if (text === undefined) return {}
  const rate = typeof text === 'string' ? parseBytes(text) : undefined
  if (rate !== undefined) return { rate_bytes: rate }
  throw usageError(`--rate is "${text}"; write a size such as 64MiB, or 0B for no limit`, '--rate')
}

/** Whether everything was found as it should be. */
export function isGood(job: JobAnswer): boolean {
  return job.state === 'done' && job.corrupt + job.failed + job.full === 0
}

/** Draws a bar until the job has ended, or the user has had enough: then it goes on by itself. */
async function waitForJob(call: CommandCall, started: JobAnswer): Promise<JobAnswer> {
  const bar = new ProgressBar(call.terminal, new SystemClock(), `${started.kind} ${started.adapter}`)
  const ask = async () => (await askEngine(call, `/v1/l2/jobs/${started.id}`)) as JobAnswer
  const isEnded = ({ state }: JobAnswer) => state !== 'running'
  const job = await poll(started, isEnded, ask, (one) => bar.update(ratioOf(one), one.objects, 'objects')).finally(() =>
    bar.finish(),
  )
  if (job.state === 'running') call.terminal.log(`${job.id} goes on; kvtier l2 cancel ${job.id} ends it.`)
  return job
}

/** Share of the objects that were looked at. */
export function ratioOf(job: JobAnswer): number {
  return job.objects_total === 0 ? 1 : job.objects / job.objects_total
}

async function listJobs(call: CommandCall): Promise<ExitCode> {
  const found = (await askEngine(call, '/v1/l2/jobs')) as { jobs: JobAnswer[] }
  const columns = [
    { title: 'job' },
    { title: 'kind' },
    { title: 'adapter', wraps: true },
    { title: 'state' },
    { title: 'done', align: 'right' as const },
    { title: 'objects', align: 'right' as const },
    { title: 'corrupt', align: 'right' as const },
    { title: 'failed', align: 'right' as const },
    { title: 'time', align: 'right' as const },
  ]
  const rows = found.jobs.map((job) => [
    job.id,
    job.kind,
    job.target === null ? job.adapter : `${job.adapter} to ${job.target}`,
    job.state,
    `${Math.floor(Math.min(1, ratioOf(job)) * 100)} %`,
    String(job.objects),
    String(job.corrupt),
    String(job.failed + job.full),
    shortDuration(job.elapsed_ms / 1000),
  ])
  answer(call, found, () => (rows.length === 0 ? 'No jobs.' : textTable(columns, rows)))
  return 0
}

async function cancelJob(call: CommandCall): Promise<ExitCode> {
  const id = call.positionals[0]!
  const job = (await askEngine(call, `/v1/l2/jobs/${encodeURIComponent(id)}`, undefined, 'DELETE')) as JobAnswer
  answer(call, job, () => `${id} ends, with ${job.objects} objects done.`)
  return 0
}

/** How a job ended, in words. */
export function jobText(job: JobAnswer): string {
  const lines = [`${job.id}: ${job.kind} ${job.adapter}: ${job.state}${job.error === '' ? '' : `: ${job.error}`}`]
  lines.push(textTable([{ title: '' }, { title: '', align: 'right' }], countRows(job), 2))
  if (job.spaces.length > 0) lines.push('', spaceTable(job))
  if (job.corrupt_objects.length > 0) lines.push('', corruptTable(job))
  return lines.join('\n')
}

function countRows(job: JobAnswer): string[][] {
  const words = { verify: 'whole', stats: 'counted', evacuate: 'copied' }
  const rows: [string, number][] = [
    [words[job.kind], job.ok],
    ['already there', job.present],
    ['gone meanwhile', job.not_found],
    ['corrupt, quarantined', job.corrupt],
    ['failed', job.failed],
    ['no room', job.full],
  ]
  const shown = rows.filter(([, count], at) => at === 0 || count > 0).map(([word, count]) => [word, String(count)])
  if (job.bytes > 0) shown.push(['read', shortBytes(job.bytes)])
  shown.push(['in', shortDuration(job.elapsed_ms / 1000)])
  return shown
}

function spaceTable({ spaces }: JobAnswer): string {
  const columns = [
    { title: 'model', wraps: true },
    { title: 'cache salt', wraps: true },
    { title: 'ranks' },
    { title: 'each', align: 'right' as const },
    { title: 'objects', align: 'right' as const },
    { title: 'held', align: 'right' as const },
  ]
  const rows = spaces.map((one) => [
    one.model,
    one.cache_salt,
    String(one.ranks),
    shortBytes(one.object_bytes),
    String(one.objects),
    shortBytes(one.bytes),
  ])
  return textTable(columns, rows)
}

function corruptTable({ corrupt_objects: objects }: JobAnswer): string {
  const columns = [
    { title: 'corrupt', wraps: true },
    { title: 'cache salt', wraps: true },
    { title: 'rank' },
    { title: 'hash' },
  ]
  const rows = objects.map((one) => [one.model, one.cache_salt, String(one.rank), `${one.hash.slice(0, 16)}..`])
  return textTable(columns, rows)
}
