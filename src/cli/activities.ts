import type { Activity } from '../activities/activity.ts'
import { parseDurationMs } from '../config/units.ts'
import { SystemClock } from '../core/clock.ts'
import { CacheError, ERRORS } from '../core/errors.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { askEngine } from './engine-http.ts'
import { poll } from './poll.ts'
import { usageError } from './report-error.ts'
import { textTable, WIDTH_COLUMNS } from './table.ts'

/** How often a running engine is asked for what is new. */
const FOLLOW_MS = 1000
/** A record may be written this long after what it tells of: so far back what is new is looked for. */
const LATE_MS = 30_000
/** Records of one answer at most. */
const SIZE_MAX = 100
const ACTION_PREFIX = 'ACTIVITY_ACTION_'

interface Page {
  readonly activities: readonly Activity[]
  readonly total: number
  readonly page: number
  readonly size: number
}

/** Filters by option, and the query parameter of each. */
const FILTERS = { user: 'userId', type: 'resourceType', resource: 'resourceId' } as const

const COLUMNS = [
  { title: 'time (UTC)' },
  { title: 'action' },
  { title: 'resource', wraps: true },
  { title: 'by', wraps: true },
  { title: 'what', wraps: true },
] as const

/** `kvtier activities`: lists the audit trail of a running engine, or follows it. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const query = queryOf(call)
  if (call.options.follow === true) return follow(call, query)
  const page = await ask(call, query)
  answer(call, page, () => {
    const table = textTable(COLUMNS, page.activities.map(cellsOf))
    const shown = page.activities.length
    const first = (page.page - 1) * page.size + 1
    return `${table}\n\n${shown === 0 ? 'None' : `${first} to ${first + shown - 1}`} of ${page.total}, newest first.`
  })
  return 0
}

/** Prints records as they come, oldest first: a line each, or a JSON object with --json. */
async function follow(call: CommandCall, query: URLSearchParams): Promise<ExitCode> {
  if (call.options.page !== undefined) throw usageError('--page and --follow do not go together', '--page')
  const seen = new Map<string, number>() // id -> when it occurred; those that cannot come again are forgotten
  let newestMs = 0
  const show = (activities: readonly Activity[]): void => {
    for (const activity of activities.toReversed()) {
      if (seen.has(activity.activityId)) continue
      const occurredMs = Date.parse(activity.occurredAt)
      seen.set(activity.activityId, occurredMs)
      newestMs = Math.max(newestMs, occurredMs)
      call.terminal.out(call.isJson ? JSON.stringify(activity) : lineOf(activity))
    }
    for (const [id, occurredMs] of seen) if (occurredMs < newestMs - LATE_MS) seen.delete(id)
  }
  const askNew = async (): Promise<readonly Activity[]> => {
    const since = new URLSearchParams(query)
    if (newestMs > 0) since.set('startTime', new Date(Math.max(newestMs - LATE_MS, startOf(query))).toISOString())
    since.set('size', String(SIZE_MAX))
    const found: Activity[] = []
    for (let page = 1; ; page += 1) {
      since.set('page', String(page))
      const { activities } = await ask(call, since)
      found.push(...activities)
      if (activities.length < SIZE_MAX || activities.every(({ activityId }) => seen.has(activityId))) return found
    }
  }
  let isAway = false
  /** An engine that restarts is waited for; what it recorded meanwhile is shown then. */
  const askPatiently = async (): Promise<readonly Activity[]> => {
    try {
      const found = await askNew()
      isAway = false
      return found
    } catch (error) {
      if (!isPassing(error)) throw error
      if (!isAway) call.terminal.log(`kvtier: ${error.message}; waiting for it`)
      isAway = true
      return []
    }
  }
  const { activities } = await ask(call, query)
  await poll(activities, () => false, askPatiently, show, FOLLOW_MS)
  return 0
}

/** Whether time may mend it: an engine that is away, is stopping, or has too much to do. */
function isPassing(error: unknown): error is CacheError {
  return error instanceof CacheError && (error.code === 'NOT_FOUND' || ERRORS[error.code].retryable)
}

function startOf(query: URLSearchParams): number {
  const start = query.get('startTime')
  return start === null ? 0 : Date.parse(start)
}

async function ask(call: CommandCall, query: URLSearchParams): Promise<Page> {
  return (await askEngine(call, `/v1/activities?${query}`)) as Page
}

function queryOf({ options }: CommandCall): URLSearchParams {
  const query = new URLSearchParams()
  for (const [option, name] of Object.entries(FILTERS)) {
    if (options[option] !== undefined) query.set(name, String(options[option]))
  }
  if (options.action !== undefined) query.set('action', actionOf(String(options.action)))
  for (const [option, name] of [['start', 'startTime'] as const, ['end', 'endTime'] as const]) {
    if (options[option] !== undefined) query.set(name, timeOf(`--${option}`, String(options[option])))
  }
  for (const option of ['page', 'size']) {
    if (options[option] !== undefined) query.set(option, String(options[option]))
  }
  return query
}

// `cache-clear` is ACTIVITY_ACTION_CACHE_CLEAR.
function actionOf(text: string): string {
  return text.startsWith(ACTION_PREFIX) ? text : ACTION_PREFIX + text.toUpperCase().replaceAll('-', '_')
}

function timeOf(flag: string, text: string): string {
  const spanMs = parseDurationMs(text)
  if (spanMs !== undefined) return new Date(new SystemClock().wallMs() - spanMs).toISOString()
  if (/^\d{4}-\d\d-\d\d$/.test(text)) return `${text}T00:00:00Z`
  if (/^\d{4}-/.test(text)) return text // the engine says what is wrong with it
  throw usageError(`${flag} is "${text}"; write a time such as 2026-01-31T12:00:00Z, or how long ago: 2h`, flag)
}

function cellsOf(activity: Activity): string[] {
  const { occurredAt, action, resourceType, resourceId, actorDisplay, userId, description } = activity
  return [
    `${occurredAt.slice(0, 10)} ${occurredAt.slice(11, 19)}`,
    action.replace(ACTION_PREFIX, '').toLowerCase().replaceAll('_', '-'),
    resourceId === '' ? resourceType : `${resourceType} ${resourceId}`,
    actorDisplay || userId,
    description,
  ]
}

function lineOf(activity: Activity): string {
  const [time = '', action = '', resource = '', by = '', what = ''] = cellsOf(activity)
  const line = `${time}  ${action}  ${resource}  ${by}  ${what}`
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is replaced
  const printable = line.replace(/[\u0000-\u001f\u007f-\u009f]/g, '?')
  return printable.length <= WIDTH_COLUMNS ? printable : `${printable.slice(0, WIDTH_COLUMNS - 1)}…`
}
