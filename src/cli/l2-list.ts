import { answer, type CommandCall, type ExitCode } from './command.ts'
import { askEngine } from './engine-http.ts'
import { type AdapterAnswer, adapterPath } from './l2-answers.ts'
import { usageError } from './report-error.ts'
import { shortBytes, shortDuration } from './short-texts.ts'
import { textTable } from './table.ts'

/** Objects that the engine gives at a time. */
const PAGE = 1000
const LIMIT_MAX = 1_000_000

interface ListedObject {
  readonly model: string
  readonly cache_salt: string
  readonly ranks: number
  readonly rank: number
  readonly bytes: number
  readonly hash: string
  readonly parent: string
}

/** `kvtier l2 list [NAME]`: the adapters of a running engine, or the objects of one. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const name = call.positionals[0]
  if (name !== undefined) return listObjects(call, name)
  if (call.options.limit !== undefined) throw usageError('--limit goes with the NAME of an adapter', '--limit')
  const found = (await askEngine(call, '/v1/l2/adapters')) as { adapters: AdapterAnswer[] }
  answer(call, found, () => (found.adapters.length === 0 ? 'No adapters.' : adapterTable(found.adapters)))
  return 0
}

async function listObjects(call: CommandCall, name: string): Promise<ExitCode> {
  const limit = limitOf(call)
  const objects: ListedObject[] = []
  let cursor: string | null = ''
  while (cursor !== null && objects.length < limit) {
    const query = new URLSearchParams({ limit: String(Math.min(PAGE, limit - objects.length)) })
    if (cursor !== '') query.set('cursor', cursor)
    const page = await askEngine(call, `${adapterPath(name, '/objects')}?${query}`)
    const { objects: more, cursor: next } = page as { objects: ListedObject[]; cursor: string | null }
    objects.push(...more)
    cursor = next
  }
  const hasMore = cursor !== null
  answer(call, { objects, has_more: hasMore }, () => {
    if (objects.length === 0) return 'No objects.'
    return hasMore ? `${objectTable(objects)}\nThere are more: give --limit.` : objectTable(objects)
  })
  return 0
}

function limitOf(call: CommandCall): number {
  const text = call.options.limit ?? '100'
  const limit = Number(text)
  if (typeof text === 'string' && Number.isSafeInteger(limit) && limit >= 1 && limit <= LIMIT_MAX) return limit
  throw usageError(`--limit is "${text}"; write a whole number from 1 to ${LIMIT_MAX}`, '--limit')
}

function adapterTable(adapters: readonly AdapterAnswer[]): string {
  const columns = [
    { title: 'name' },
    { title: 'type' },
    { title: 'state', wraps: true },
    { title: 'origin' },
    { title: 'objects', align: 'right' as const },
    { title: 'held', align: 'right' as const },
    { title: 'of', align: 'right' as const },
    { title: 'in flight', align: 'right' as const },
    { title: 'circuit' },
  ]
  const rows = adapters.map((one) => [
    one.name,
    one.type,
    stateText(one),
    one.origin,
    String(one.objects),
    shortBytes(one.usage_bytes),
    one.capacity_bytes === 0 ? 'no limit' : shortBytes(one.capacity_bytes),
    String(one.inflight_stores + one.inflight_loads + one.abandoned),
    one.circuit,
  ])
  return textTable(columns, rows)
}

/** The state, and how far a drain is. */
export function stateText({ state, drain }: AdapterAnswer): string {
  if (drain === null) return state
  if (drain.phase === 'drained') return `${state}: done`
  if (drain.phase === 'deadline_passed') return `${state}: deadline passed`
  return `${state}: ${shortDuration(drain.remaining_ms / 1000)} left`
}

function objectTable(objects: readonly ListedObject[]): string {
  const columns = [
    { title: 'model', wraps: true },
    { title: 'cache salt', wraps: true },
    { title: 'rank' },
    { title: 'held', align: 'right' as const },
    { title: 'hash' },
  ]
  const rows = objects.map((one) => [
    one.model,
    one.cache_salt,
    `${one.rank}/${one.ranks}`,
    shortBytes(one.bytes),
    `${one.hash.slice(0, 16)}..`,
  ])
  return textTable(columns, rows)
}
