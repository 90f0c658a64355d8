import { readFileSync } from 'node:fs'
import { CacheError } from '../core/errors.ts'
import type { CommandCall, OptionSpec } from './command.ts'
import { DATA_DIR_OPTION, dataDirOf } from './data-dir-option.ts'
import { readAddresses } from './engine-addresses.ts'
import { usageError } from './report-error.ts'

const TIMEOUT_MS = 5_000

/** Options of the commands that ask the HTTP API of a running engine. */
export const HTTP_OPTIONS: readonly OptionSpec[] = [
  { name: 'url', value: 'URL', help: 'HTTP address of the engine.', default: 'the one in --data-dir' },
  DATA_DIR_OPTION,
  { name: 'token-file', value: 'FILE', help: 'File that holds a bearer token.' },
]

/**
 * Asks the HTTP API of the engine that `HTTP_OPTIONS` name. A body makes it a POST.
 *
 * @throws CacheError NOT_FOUND, CONFIG_INVALID
 */
export async function askEngine(call: CommandCall, path: string, body?: object): Promise<object> {
  const url = new URL(path, baseUrl(call))
  const token = readToken(call)
  let response: Response
  try {
    const headers = {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    }
    const request = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    response = await fetch(url, { ...request, headers, signal: AbortSignal.timeout(TIMEOUT_MS) })
  } catch (error) {
    const cause = (error as Error).cause as NodeJS.ErrnoException | undefined
    const reason = cause?.code ?? (error as Error).name
    throw new CacheError('NOT_FOUND', `no engine answers at ${url.origin} (${reason}); is it running?`, {}, error)
  }
  const answer = (await response.json().catch(() => null)) as { error?: { message?: string } } | null
  if (response.ok && answer !== null) return answer
  const hint = response.status === 401 || response.status === 403 ? '; give --token-file' : ''
  const message = answer?.error?.message ?? 'no JSON in the answer'
  throw new CacheError('NOT_FOUND', `${url} answers ${response.status}: ${message}${hint}`)
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
