import { createHash, timingSafeEqual } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import type { Clock } from '../../core/clock.ts'
import { CacheError } from '../../core/errors.ts'
import type { PrometheusOptions } from '../options.ts'
import { WatchedFile } from '../watched-file.ts'

/** What scrapers must send, and what they see of us. Files are read again when they change. */
export interface ScrapeFiles {
  /** Null = everybody may scrape. */
  readonly token: WatchedFile<Buffer> | null
  /** PEM; null = plain HTTP. */
  readonly tls: { readonly cert: WatchedFile<string>; readonly key: WatchedFile<string> } | null
}

type FileOptions = Pick<PrometheusOptions, 'tokenFile' | 'certFile' | 'keyFile'>

/**
 * @param onReload told which option's file has changed and was read again.
 * @throws CacheError CONFIG_INVALID when a file cannot be read, or certificate and key do not fit.
 */
export function openScrapeFiles(
  options: FileOptions,
  clock: Clock,
  onError: (error: unknown) => void,
  onReload: (flag: string) => void = () => {},
): ScrapeFiles {
  const open = <T>(path: string, flag: string, parse: (text: string) => T) =>
    new WatchedFile({ path, flag, clock, parse, onError, onReload })
  const { tokenFile, certFile, keyFile } = options
  const token = tokenFile === '' ? null : open(tokenFile, '--prometheus-token-file', tokenHash)
  if (certFile === '') return { token, tls: null }
  const cert = open(certFile, '--prometheus-cert-file', (text) => text)
  const key = open(keyFile, '--prometheus-key-file', (text) => text)
  try {
    createSecureContext({ cert: cert.value(), key: key.value() })
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'they cannot be used'
    const message = `--prometheus-cert-file and --prometheus-key-file do not fit (${reason}): write PEM files of one pair`
    throw new CacheError('CONFIG_INVALID', message, { field: '--prometheus-cert-file' })
  }
  return { token, tls: { cert, key } }
}

/** Whether a request carries the token. Takes the same time wherever the two differ. */
export function mayScrape({ token }: ScrapeFiles, authorization: string | undefined): boolean {
  if (token === null) return true
  const given = /^Bearer +(\S+)$/i.exec(authorization ?? '')?.[1] ?? ''
  return timingSafeEqual(hashOf(given), token.value())
}

function tokenHash(text: string): Buffer {
  const token = text.trim()
  if (!/^\S{8,4096}$/.test(token)) throw new Error('it holds no token: write one word of 8 characters or more')
  return hashOf(token)
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest()
}
