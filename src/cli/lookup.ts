import { readFileSync } from 'node:fs'
import { CacheError } from '../core/errors.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { askEngine } from './engine-http.ts'
import { usageError } from './report-error.ts'
import { textTable } from './table.ts'

/** Loads from storage may take as long as their deadlines. */
const PREFETCH_TIMEOUT_MS = 120_000

interface LookupAnswer {
  readonly prompt_tokens: number
  readonly requested_tokens: number
  readonly hit_tokens: number
  readonly chunk_tokens: number
  readonly tiers: { readonly l0: number; readonly l1: number; readonly l2: number }
}

interface PrefetchAnswer {
  readonly requested_tokens: number
  readonly resident_tokens: number
  readonly loaded_tokens: number
}

/** What one engine holds of the prompt, or why it does not say. */
interface EngineRow extends Partial<LookupAnswer> {
  readonly engine: string
  readonly error?: string
}

const COLUMNS = [
  { title: 'engine', wraps: true },
  { title: 'cached', align: 'right' },
  { title: 'of tokens', align: 'right' },
  { title: 'L0', align: 'right' },
  { title: 'L1', align: 'right' },
  { title: 'L2', align: 'right' },
  { title: '', wraps: true },
] as const

/** `kvtier lookup` and `kvtier prefetch`: what engines hold of a prompt, and loading it. */
export async function run(call: CommandCall): Promise<ExitCode> {
  return call.spec.name === 'prefetch' ? await prefetch(call) : await lookup(call)
}

/** Asks every engine, without lease, load or counter, and shows the warmest first. */
async function lookup(call: CommandCall): Promise<ExitCode> {
  const body = { ...promptOf(call), dry_run: true }
  const rows = await Promise.all(urlsOf(call).map((url) => askOne(call, url, body)))
  const answered = rows.filter(({ error }) => error === undefined)
  const warmest = answered.reduce<EngineRow | null>((best, row) => (isWarmer(row, best) ? row : best), null)
  // Of one engine the reason is the whole answer.
  if (warmest === null && rows.length === 1) throw new CacheError('NOT_FOUND', rows[0]!.error ?? '')
  answer(call, { model: body.model, warmest: warmest?.engine ?? null, engines: rows }, () => {
    const sorted = rows.toSorted((left, right) => (isWarmer(left, right) ? -1 : isWarmer(right, left) ? 1 : 0))
    return textTable(COLUMNS, sorted.map(cellsOf))
  })
  return warmest === null ? 1 : 0
}

async function askOne(call: CommandCall, url: string | null, body: object): Promise<EngineRow> {
  const engine = url ?? 'this directory'
  const one = url === null ? call : { ...call, options: { ...call.options, url } }
  try {
    const { prompt_tokens, requested_tokens, hit_tokens, chunk_tokens, tiers } = (await askEngine(
      one,
      '/v1/lookup',
      body,
    )) as LookupAnswer
    return { engine, prompt_tokens, requested_tokens, hit_tokens, chunk_tokens, tiers }
  } catch (error) {
    if (!(error instanceof CacheError) || error.code === 'CONFIG_INVALID') throw error
    return { engine, error: error.message }
  }
}

/** More of the prompt, or as much in faster tiers. One that did not answer is the coldest. */
function isWarmer(row: EngineRow, than: EngineRow | null): boolean {
  if (row.tiers === undefined) return false
  if (than === null || than.tiers === undefined) return true
  const order = [row.hit_tokens! - than.hit_tokens!, row.tiers.l0 - than.tiers.l0, row.tiers.l1 - than.tiers.l1]
  return (order.find((difference) => difference !== 0) ?? 0) > 0
}

function cellsOf({ engine, error, tiers, hit_tokens: hit, prompt_tokens: tokens }: EngineRow): string[] {
  if (tiers === undefined) return [engine, '-', '-', '-', '-', '-', error ?? '']
  return [engine, ...[hit!, tokens!, tiers.l0, tiers.l1, tiers.l2].map(grouped), '']
}

async function prefetch(call: CommandCall): Promise<ExitCode> {
  if (urlsOf(call).length > 1) throw usageError('prefetch asks one engine; give one --url', '--url')
  const warmed = (await askEngine(call, '/v1/prefetch', promptOf(call), 'POST', PREFETCH_TIMEOUT_MS)) as PrefetchAnswer
  answer(call, warmed, () => {
    const { requested_tokens: asked, resident_tokens: resident, loaded_tokens: loaded } = warmed
    return `${grouped(loaded)} tokens loaded into L1; ${grouped(resident)} of ${grouped(asked)} were there before.`
  })
  return 0
}

/** The engines asked; null = that of --data-dir. */
function urlsOf({ options }: CommandCall): (string | null)[] {
  if (options.url === undefined) return [null]
  return String(options.url)
    .split(',')
    .map((url) => url.trim())
    .filter((url) => url !== '')
}

interface Prompt {
  readonly model: string
  readonly cache_salt?: string
  readonly ranks?: number
  readonly prompt?: string
  readonly messages?: unknown
}

function promptOf({ options }: CommandCall): Prompt {
  const given = ['prompt', 'file', 'messages'].filter((name) => options[name] !== undefined)
  if (given.length !== 1) throw usageError('give the text as one of --prompt, --file and --messages', '--prompt')
  if (options.model === undefined)
    throw usageError('--model is missing: the text is tokenized as that model does', '--model')
  const ranks = options.ranks === undefined ? {} : { ranks: ranksOf(String(options.ranks)) }
  const salt = options.salt === undefined ? {} : { cache_salt: String(options.salt) }
  return { model: String(options.model), ...salt, ...ranks, ...textOf(options) }
}

function textOf(options: CommandCall['options']): Pick<Prompt, 'prompt' | 'messages'> {
  if (options.prompt !== undefined) return { prompt: String(options.prompt) }
  if (options.file !== undefined) return { prompt: readText('--file', String(options.file)) }
  const path = String(options.messages)
  try {
    return { messages: JSON.parse(readText('--messages', path)) }
  } catch (error) {
    if (error instanceof CacheError) throw error
    throw usageError(`--messages is "${path}": it is not valid JSON`, '--messages')
  }
}

/** `-` is stdin. */
function readText(flag: string, path: string): string {
  try {
    return readFileSync(path === '-' ? 0 : path, 'utf8')
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable'
    throw usageError(`${flag} is "${path}": it cannot be read (${reason})`, flag)
  }
}

function ranksOf(text: string): number {
  const ranks = Number(text)
  if (Number.isSafeInteger(ranks) && ranks >= 1) return ranks
  throw usageError(`--ranks is "${text}"; write a whole number of 1 or more`, '--ranks')
}

function grouped(value: number): string {
  return value.toLocaleString('en-US')
}
