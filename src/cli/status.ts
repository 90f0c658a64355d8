import { readFileSync } from 'node:fs'
import { CacheError } from '../core/errors.ts'
import { answer, type CommandCall, type ExitCode } from './command.ts'
import { dataDirOf } from './data-dir-option.ts'
import { readAddresses } from './engine-addresses.ts'
import { usageError } from './report-error.ts'
import { textTable } from './table.ts'

const TIMEOUT_MS = 5_000

/** `kvtier status`: what `GET /status` of a running engine says. */
export async function run(call: CommandCall): Promise<ExitCode> {
  const url = new URL('/status', baseUrl(call))
  const status = await fetchJson(url, readToken(call))
  answer(call, status, () => textTable([{ title: 'what' }, { title: 'value', wraps: true }], flatRows(status)))
  return 0
}

function baseUrl(call: CommandCall): URL {
  const given = call.options.url
  if (given !== undefined) {
    if (given !== true && URL.canParse(given) && /^https?:$/.test(new URL(given).protocol)) return new URL(given)
    throw usageError(`--url is "${given}"; write an address such as http://127.0.0.1:8080`, '--url')
  }
  const addresses = readAddresses(call, '--url')
  if (addresses.http === undefined)
    throw new CacheError('NOT_FOUND', `the engine of ${dataDirOf(call)} serves no HTTP API`)
  return new URL(`http://${addresses.http}`)
}

function readToken(call: CommandCall): string | undefined {
  const path = call.options['token-file']
  if (typeof path !== 'string') return undefined
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable'
    throw usageError(`--token-file is "${path}": it cannot be read (${reason})`, '--token-file')
  }
}

async function fetchJson(url: URL, token: string | undefined): Promise<object> {
  let response: Response
  try {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    response = await fetch(url, { headers, signal: AbortSignal.timeout(TIMEOUT_MS) })
  } catch (error) {
    const cause = (error as Error).cause as NodeJS.ErrnoException | undefined
    const reason = cause?.code ?? (error as Error).name
    throw new CacheError('NOT_FOUND', `no engine answers at ${url.origin} (${reason}); is it running?`, {}, error)
  }
  const body = (await response.json().catch(() => null)) as { error?: { message?: string } } | null
  if (response.ok && body !== null) return body
  const hint = response.status === 401 || response.status === 403 ? '; give --token-file' : ''
  const message = body?.error?.message ?? 'no JSON in the answer'
  throw new CacheError('NOT_FOUND', `${url} answers ${response.status}: ${message}${hint}`)
}

/** Nested objects as rows of dotted names. */
export function flatRows(value: unknown, name = ''): string[][] {
  if (typeof value !== 'object' || value === null) return [[name, String(value)]]
  if (Array.isArray(value) && value.every((item) => typeof item !== 'object')) return [[name, value.join(', ') || '-']]
  return Object.entries(value).flatMap(([key, inner]) => flatRows(inner, name === '' ? key : `${name}.${key}`))
}
