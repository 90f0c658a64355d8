import { readFileSync } from 'node:fs'
import { CacheError } from '../core/errors.ts'
import type { PushOptions } from '../server/options.ts'
import type { SenderOptions } from '../server/push/otlp-sender.ts'

/**
 * Reads the files that the push options name, before the slow part of a start.
 *
 * @throws CacheError CONFIG_INVALID, which names the option
 */
export function readPushFiles(push: PushOptions): SenderOptions {
  const { endpoint, compression, timeoutMs } = push
  const ca = readText('--otlp-ca-file', push.caFile)
  const cert = readText('--otlp-cert-file', push.certFile)
  const key = readText('--otlp-key-file', push.keyFile)
  const tls = { ...(ca === '' ? {} : { ca }), ...(cert === '' ? {} : { cert }), ...(key === '' ? {} : { key }) }
  const headers = { ...headersOf(readText('--otlp-headers-file', push.headersFile)), ...push.headers }
  return { endpoint, compression, timeoutMs, headers, tls }
}

function readText(flag: string, path: string): string {
  if (path === '') return ''
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'it cannot be read'
    const message = `${flag} is "${path}": it cannot be read (${reason}); check the path and its permissions`
    throw new CacheError('CONFIG_INVALID', message, { field: flag }, error)
  }
}

// The text is a secret: an error says the line, not what is in it.
function headersOf(text: string): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (line.trim() === '' || line.startsWith('#')) continue
    const [, name, value] = /^([A-Za-z0-9!#$%&'*+.^_`|~-]{1,128})\s*:\s*([\x20-\x7e]*)$/.exec(line) ?? []
    if (name === undefined || value === undefined) {
      const message = `--otlp-headers-file, line ${index + 1}: write "name: value", a header a line`
      throw new CacheError('CONFIG_INVALID', message, { field: '--otlp-headers-file' })
    }
    headers[name.toLowerCase()] = value.trim()
  }
  return headers
}
