import { isIP } from 'node:net'
import { CacheError } from '../../core/errors.ts'
import type { TokenStore } from './token-store.ts'

/** Whether an address of ours can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  const name = host.toLowerCase().replace(/^\[|\]$/g, '')
  return name === 'localhost' || name === '::1' || (isIP(name) === 4 && name.startsWith('127.'))
}

/** An address that others can reach needs a token first. @throws CacheError CONFIG_INVALID */
export function checkBindHost({ bindHost, isOpen }: HostRule, tokens: TokenStore): void {
  if (isLoopback(bindHost) || isOpen || tokens.hasScope('read', 'inference', 'admin')) return
  const message =
    `--http-host is "${bindHost}", which others can reach, and there is no token: ` +
    'run `kvtier token create --scope admin` first, give --auth-token-file, or write 127.0.0.1'
  throw new CacheError('CONFIG_INVALID', message, { field: '--http-host' })
}

export interface HostRule {
  /** What the server is bound to. */
  readonly bindHost: string
  /** Whoever reaches it may read and infer without a token, as on loopback. */
  readonly isOpen: boolean
  /** Further names, in lower case, that Host and Origin may carry. */
  readonly allowedHosts: readonly string[]
}

/**
 * Refuses what a web page of somebody else's would send.
 *
 * Host: a server on loopback answers only to loopback names, so that a foreign name that was rebound to 127.0.0.1
 * reaches nothing. Origin: a browser names the page's origin; it must be ours or one of the allowed names.
 *
 * @throws CacheError FORBIDDEN
 */
export function checkHostAndOrigin(rule: HostRule, host: string | undefined, origin: string | undefined): void {
  const name = hostName(host)
  const isRestricted = isLoopback(rule.bindHost) || rule.allowedHosts.length > 0
  if (isRestricted && (name === undefined || !isOurs(rule, name))) {
    throw new CacheError('FORBIDDEN', 'the Host header is foreign; allow it with --http-allowed-hosts', {
      field: 'host',
    })
  }
  if (origin === undefined || isSameOrigin(origin, host)) return
  const originName = hostName(URL.parse(origin)?.host)
  if (originName !== undefined && rule.allowedHosts.includes(originName)) return
  throw new CacheError('FORBIDDEN', 'the Origin is foreign; allow it with --http-allowed-hosts', { field: 'origin' })
}

function isOurs(rule: HostRule, name: string): boolean {
  return isLoopback(name) || name === rule.bindHost.toLowerCase() || rule.allowedHosts.includes(name)
}

function isSameOrigin(origin: string, host: string | undefined): boolean {
  const own = URL.parse(`http://${host}`)
  const other = URL.parse(origin)
  return own !== null && other !== null && /^https?:$/.test(other.protocol) && own.host === other.host
}

// `[::1]:8080` is ::1, `LOCALHOST:8080` is localhost; undefined when it is no host at all.
function hostName(host: string | undefined): string | undefined {
  if (host === undefined || host === '' || /[\s/@\\?#]/.test(host)) return undefined
  const url = URL.parse(`http://${host}`)
  return url === null || url.hostname === '' ? undefined : url.hostname.replace(/^\[|\]$/g, '').toLowerCase()
}
