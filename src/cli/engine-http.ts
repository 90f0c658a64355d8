import { CacheError, ERRORS, type ErrorCode } from '../core/errors.ts'
import type { CommandCall, OptionSpec } from './command.ts'
import { DATA_DIR_OPTION, dataDirOf } from './data-dir-option.ts'
import { readAddresses } from './engine-addresses.ts'
import { usageError } from './report-error.ts'
import { TOKEN_FILE_OPTION, tokenOf } from './token-file-option.ts'

const TIMEOUT_MS = 10_000

/** The options of commands that ask a running engine over HTTP. */
export const HTTP_OPTIONS: readonly OptionSpec[] = [
  { name: 'url', value: 'URL', help: 'HTTP address of the engine.', default: 'the one in --data-dir' },
  DATA_DIR_OPTION,
  TOKEN_FILE_OPTION,
]

interface EngineRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  readonly body: object | undefined
  readonly timeoutMs: number
}

/**
 * Asks the engine of `--url` or `--data-dir`.
 *
 * @param method POST by default where there is a body.
 * @returns the body of the answer; {} when it has none.
 * @throws CacheError NOT_FOUND when no engine answers; when it refuses, its own code and words.
 */
export async function askEngine(
  call: CommandCall,
  path: string,
  body?: object,
  method: EngineRequest['method'] = body === undefined ? 'GET' : 'POST',
  timeoutMs = TIMEOUT_MS,
): Promise<object> {
  const url = new URL(path, baseUrl(call))
  const response = await send(url, { method, body, timeoutMs }, tokenOf(call))
  if (response.status === 204) return {}
  const answer = (await response.json().catch(() => null)) as { error?: { message?: string; code?: string } } | null
  if (response.ok && answer !== null) return answer
  const hint = response.status === 401 || response.status === 403 ? '; give --token-file' : ''
  const message = answer?.error?.message ?? 'no JSON in the answer'
  const code = answer?.error?.code ?? ''
  const known = Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : 'NOT_FOUND'
  throw new CacheError(known, `${url} answers ${response.status}: ${message}${hint}`)
}

async function send(url: URL, request: EngineRequest, token: string | undefined): Promise<Response> {
  const { method, body, timeoutMs } = request
  try {
    return await fetch(url, {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(timeoutMs),
    })
  } catch (error) {
    const cause = (error as Error).cause as NodeJS.ErrnoException | undefined
    const reason = cause?.code ?? cause?.message ?? (error as Error).name
    throw new CacheError('NOT_FOUND', `no engine answers at ${url.origin} (${reason}); is it running?`, {}, error)
  }
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
