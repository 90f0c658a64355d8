import type { FastifyRequest } from 'fastify'
import { badRequest } from './schemas.ts'

const INT64_MIN = -(2n ** 63n)
const INT64_MAX = 2n ** 63n - 1n

interface ObjectSchema {
  readonly properties?: Readonly<Record<string, { readonly type?: string }>>
}

/**
 * Turns the texts of a query string into the integers and booleans that its schema declares, and nothing else: the
 * validator itself coerces nothing. Canonical decimal text only; `1e3`, `0x10`, ` 1` and `+1` are refused.
 *
 * Integers past 2^53 become the nearest safe one for the validator, and stay exact in `request.int64s`.
 *
 * @throws CacheError BAD_REQUEST
 */
export async function readQueryNumbers(request: FastifyRequest): Promise<void> {
  const schema = request.routeOptions.schema?.querystring as ObjectSchema | undefined
  const query = request.query as Record<string, unknown>
  request.int64s = {}
  for (const [name, property] of Object.entries(schema?.properties ?? {})) {
    const text = query[name]
    if (text === undefined) continue
    if (typeof text !== 'string') throw badRequest(name, `${name} is given more than once`)
    if (property.type === 'integer') {
      const exact = parseInt64(name, text)
      request.int64s[name] = exact
      query[name] = nearestSafe(exact)
    }
    if (property.type === 'boolean' && (text === 'true' || text === 'false')) query[name] = text === 'true'
  }
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Integers of the query string, exact. */
    int64s: Record<string, bigint>
  }
}

function parseInt64(name: string, text: string): bigint {
  const value = /^-?(0|[1-9]\d{0,18})$/.test(text) ? BigInt(text) : undefined
  if (value === undefined || value < INT64_MIN || value > INT64_MAX)
    throw badRequest(name, `${name} must be an integer`)
  return value
}

function nearestSafe(value: bigint): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER)) return Number.MAX_SAFE_INTEGER
  if (value < BigInt(Number.MIN_SAFE_INTEGER)) return Number.MIN_SAFE_INTEGER
  return Number(value)
}
