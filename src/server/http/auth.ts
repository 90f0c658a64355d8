import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Actor } from '../../activities/activity.ts'
import { CacheError } from '../../core/errors.ts'
import { checkBindHost, checkHostAndOrigin, type HostRule, isLoopback } from './host-check.ts'
import type { RateLimiter } from './rate-limiter.ts'
import type { Scope } from './token-file.ts'
import type { TokenHolder, TokenStore } from './token-store.ts'

/** What a route needs of its caller. `public` needs nothing. */
export type RouteScope = Scope | 'public'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Every route of the API names its scope; the server refuses to build with one that does not. */
    scope?: RouteScope
  }
  interface FastifyRequest {
    /** The token's holder; null for a caller without one. */
    holder: TokenHolder | null
  }
}

/** The caller of a request, as the audit trail names it. */
export function actorOf(request: FastifyRequest): Actor {
  const { holder } = request
  if (holder === null) {
    return { type: 'ACTOR_TYPE_UNSPECIFIED', id: '', userId: '', display: `no token, from ${request.ip}` }
  }
  const display = holder.name === '' ? holder.id : holder.name
  return { type: 'ACTOR_TYPE_TOKEN', id: holder.id, userId: display, display }
}

/**
 * Decides who may do what.
 *
 *   token sent       -> valid and of the route's scope, or refused (401, 403), on any address
 *   no token sent    -> admin: refused. read, inference: open on loopback, or where that was said explicitly, as long as
 *                       no token of that very scope exists
 *
 * Each token, and each address without one, has a rate of its own. Public routes have none.
 */
export class Gatekeeper {
  readonly #rule: HostRule
  readonly #tokens: TokenStore
  readonly #limiter: RateLimiter

  constructor(rule: HostRule, tokens: TokenStore, limiter: RateLimiter) {
    this.#rule = rule
    this.#tokens = tokens
    this.#limiter = limiter
  }

  /** An address that others can reach needs a token first. @throws CacheError CONFIG_INVALID */
  checkBind(): void {
    checkBindHost(this.#rule, this.#tokens)
  }

  /**
   * Judges a request by its headers, before its body is read.
   *
   * @throws CacheError FORBIDDEN, UNAUTHENTICATED, RATE_LIMITED
   */
  check(request: FastifyRequest, reply: FastifyReply): void {
    const { host, origin, authorization } = request.headers
    checkHostAndOrigin(this.#rule, host, origin)
    const scope = request.routeOptions.config.scope ?? 'public'
    if (scope === 'public') return
    if (authorization === undefined) {
      this.#limit(addressOf(request), reply)
      this.#checkAnonymous(scope, reply)
      return
    }
    const holder = this.#holderOf(authorization, request, reply)
    this.#limit(holder.id, reply)
    if (!holder.scopes.includes('admin') && !holder.scopes.includes(scope)) {
      reply.header('www-authenticate', `Bearer realm="kvtier", error="insufficient_scope", scope="${scope}"`)
      throw new CacheError('FORBIDDEN', `the token lacks the scope ${scope}`, { field: 'authorization' })
    }
    request.holder = holder
  }

  #checkAnonymous(scope: Scope, reply: FastifyReply): void {
    const isLocal = isLoopback(this.#rule.bindHost) || this.#rule.isOpen
    if (isLocal && scope === 'admin' && !this.#tokens.hasScope('admin')) {
      const message = 'this needs a token of scope admin: run `kvtier token create --scope admin`'
      throw new CacheError('FORBIDDEN', message, { field: 'authorization' })
    }
    if (isLocal && scope !== 'admin' && !this.#tokens.hasScope(scope)) return
    reply.header('www-authenticate', 'Bearer realm="kvtier"')
    throw new CacheError('UNAUTHENTICATED', `send a token of scope ${scope}: Authorization: Bearer kvt_...`, {
      field: 'authorization',
    })
  }

  #limit(caller: string, reply: FastifyReply): void {
    const waitSeconds = this.#limiter.take(caller)
    if (waitSeconds === 0) return
    const seconds = Math.ceil(waitSeconds)
    reply.header('retry-after', String(seconds))
    throw new CacheError('RATE_LIMITED', `too many requests of this token or address; wait ${seconds} s`)
  }

  #holderOf(authorization: string, request: FastifyRequest, reply: FastifyReply): TokenHolder {
    const token = /^Bearer ([\w.~+/-]+=*)$/i.exec(authorization)?.[1]
    const check = token === undefined ? undefined : this.#tokens.check(token)
    if (check?.status === 'valid') return check.holder
    this.#limit(addressOf(request), reply) // or tokens could be guessed as fast as they are sent
    reply.header('www-authenticate', 'Bearer realm="kvtier", error="invalid_token"')
    const reason = check === undefined ? 'is no bearer token' : `carries a token that is ${check.status}`
    throw new CacheError('UNAUTHENTICATED', `the Authorization header ${reason}`, { field: 'authorization' })
  }
}

function addressOf(request: FastifyRequest): string {
  return `address ${request.ip}`
}
