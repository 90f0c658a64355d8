import type { Socket } from 'node:net'
import swagger from '@fastify/swagger'
import Fastify, { type FastifyReply, type FastifyRequest, LogController, type RouteOptions } from 'fastify'
import type { Logger } from 'pino'
import { Type } from 'typebox'
import type { Clock } from '../../core/clock.ts'
import { CacheError } from '../../core/errors.ts'
import { bindError } from '../bind-error.ts'
import type { HttpOptions } from '../options.ts'
import type { Api, ApiParts } from './api.ts'
import { Gatekeeper, type RouteScope } from './auth.ts'
import { boundedEngine } from './bounded-engine.ts'
import { documentedAnswers } from './documented-answers.ts'
import { HttpError, mapError } from './error-mapper.ts'
import { takeExactText } from './exact-text.ts'
import { readQueryNumbers } from './query-numbers.ts'
import { RateLimiter } from './rate-limiter.ts'
import { activityRoutes } from './routes/activity-routes.ts'
import { adminRoutes } from './routes/admin-routes.ts'
import { borrowerRoutes } from './routes/borrower-routes.ts'
import { chunkRoutes } from './routes/chunk-routes.ts'
import { deviceRoutes } from './routes/device-routes.ts'
import { healthRoutes } from './routes/health-routes.ts'
import { jobRoutes } from './routes/job-routes.ts'
import { lookupRoutes } from './routes/lookup-routes.ts'
import { modelRoutes } from './routes/model-routes.ts'
import { overviewRoutes } from './routes/overview-routes.ts'
import { pageRoutes } from './routes/page-routes.ts'
import { peerRoutes } from './routes/peer-routes.ts'
import { quarantineRoutes } from './routes/quarantine-routes.ts'
import { quotaRoutes } from './routes/quota-routes.ts'
import { storageRoutes } from './routes/storage-routes.ts'
import { tokenizeRoutes } from './routes/tokenize-routes.ts'
import { errorAnswers, JSON_BODY_MAX, NoQuery } from './schemas.ts'
import type { TokenStore } from './token-store.ts'
import { keepForAnswer } from './unread-body.ts'

export interface HttpServiceParts extends ApiParts {
  readonly options: HttpOptions
  readonly tokens: TokenStore
  readonly logger: Logger
  readonly version: string
  /** A new unique id for a request that carries none. */
  readonly newId: () => string
}

/** How long a stopping server waits for requests under way. */
const CLOSE_GRACE_MS = 3000
/** A connection on which nothing moves is cut off this much later than a request that is late, which is answered. */
const SILENCE_MS = 5000
/** How soon a stopping server lets go of a connection whose last answer has gone out. */
const CLOSE_IDLE_MS = 20

/** One route as it was registered. */
export interface RouteRow {
  readonly method: string
  readonly url: string
  readonly scope: RouteScope
}

/** The HTTP API. Runs on the service thread; asks the engine through `EnginePort`. */
export class HttpService {
  /** Every route, in order of registration. */
  readonly routes: readonly RouteRow[]
  /** For tests: requests without a socket. */
  readonly api: Api
  readonly #options: HttpOptions
  readonly #gate: Gatekeeper

  readonly #clock: Clock

  private constructor(api: Api, routes: readonly RouteRow[], gate: Gatekeeper, parts: HttpServiceParts) {
    this.api = api
    this.routes = routes
    this.#gate = gate
    this.#options = parts.options
    this.#clock = parts.clock
  }

  /** Builds the API. @throws CacheError CONFIG_INVALID when it would be open to others without a token. */
  static async create(given: HttpServiceParts): Promise<HttpService> {
    const { options, tokens, clock } = given
    const engine = boundedEngine(given.engine, clock, options.answerTimeoutMs)
    const storage = boundedEngine(given.storage, clock, options.answerTimeoutMs)
    const parts = { ...given, engine, storage }
    const allowedHosts = options.allowedHosts.map((host) => host.toLowerCase())
    const limiter = new RateLimiter({ perSecond: options.rateLimit, burst: options.rateBurst, clock })
    const rule = { bindHost: options.host, isOpen: options.withoutTokens, allowedHosts }
    const gate = new Gatekeeper(rule, tokens, limiter)
    gate.checkBind()
    const api = createApi(parts)
    const routes: RouteRow[] = []
    api.addHook('onRoute', (route) => addRows(routes, route))
    let isClosing = false
    api.addHook('preClose', async () => {
      isClosing = true
    })
    api.addHook('onRequest', async (request, reply) => {
      reply.header('x-request-id', request.id)
      if (isClosing) throw new CacheError('SHUTTING_DOWN', 'the engine is stopping; try again later')
      gate.check(request, reply)
    })
    takeExactText(api)
    api.addHook('onSend', async (request, reply) => {
      keepForAnswer(request, reply)
      if (isClosing) reply.header('connection', 'close')
    })
    api.addHook('preValidation', readQueryNumbers)
    api.addHook('onResponse', async (request, reply) => logResponse(request, reply))
    api.setErrorHandler((error, request, reply) => sendError(error, request, reply))
    api.setNotFoundHandler((request, reply) => sendError(notFound(routes, request, reply), request, reply))
    await addRoutes(api, parts)
    await api.ready()
    return new HttpService(api, routes, gate, parts)
  }

  /** Binds. @returns the address in use, as `host:port`. @throws CacheError PORT_TAKEN, CONFIG_INVALID */
  async listen(): Promise<string> {
    const { host, port } = this.#options
    this.#gate.checkBind()
    const { log } = this.api
    const { level } = log
    log.level = 'silent' // fastify tells its addresses; the start of the engine does so in its own words
    try {
      await this.api.listen({ host, port })
    } catch (error) {
      throw bindError('http', host, port, error)
    } finally {
      log.level = level
    }
    const address = this.api.server.address()
    const used = typeof address === 'object' && address !== null ? address : { address: host, port, family: 'IPv4' }
    return used.family === 'IPv6' ? `[${used.address}]:${used.port}` : `${used.address}:${used.port}`
  }

  /** Answers what is under way, takes nothing new, and cuts off what is still open after the grace time. */
  async close(): Promise<void> {
    const { server } = this.api
    const letGo = (): void => {
      server.closeIdleConnections() // a client that keeps its connection would hold the stop
      idle = this.#clock.schedule(CLOSE_IDLE_MS, letGo)
    }
    let idle = this.#clock.schedule(CLOSE_IDLE_MS, letGo)
    const grace = this.#clock.schedule(CLOSE_GRACE_MS, () => server.closeAllConnections())
    await this.api.close()
    grace.cancel()
    idle.cancel()
  }
}

function createApi({ options, logger, newId }: HttpServiceParts): Api {
  const api = Fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: 'requestId' }),
    bodyLimit: JSON_BODY_MAX,
    requestTimeout: options.requestTimeoutMs,
    connectionTimeout: options.requestTimeoutMs + SILENCE_MS,
    forceCloseConnections: 'idle',
    return503OnClosing: false, // answered in our own error shape
    routerOptions: { maxParamLength: 256 },
    // A request without a Host is refused in our own error shape, by the host check. Node looks for late ones every 30 s
    // unless told otherwise.
    http: { requireHostHeader: false, connectionsCheckingInterval: Math.min(options.requestTimeoutMs / 8, 1000) },
    requestIdHeader: false,
    genReqId: (request) => requestIdOf(request.headers['x-request-id'], newId),
    // Nothing is guessed and nothing is dropped: what the schema does not name is an error.
    ajv: { customOptions: { coerceTypes: false, removeAdditional: false, useDefaults: false, allErrors: false } },
    frameworkErrors: (error, request, reply) => sendError(error, request, reply),
    clientErrorHandler: (error, socket) => answerBrokenRequest(error, socket, newId),
  })
  api.removeContentTypeParser('text/plain')
  // Node would answer an expectation that it does not know by itself, and not in our shape; it may be passed over.
  api.server.on('checkExpectation', (request, response) => api.server.emit('request', request, response))
  api.server.maxConnections = options.connectionsMax
  api.server.headersTimeout = Math.min(options.requestTimeoutMs, 20_000)
  api.decorateRequest('holder', null)
  api.decorateRequest('int64s')
  return api as unknown as Api
}

async function addRoutes(api: Api, parts: HttpServiceParts): Promise<void> {
  await api.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'kvtier',
        version: parts.version,
        description: 'Tiered KV cache. Every error has one shape; every route names the scope of its token.',
      },
      components: { securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } } },
    },
    transform: ({ schema, url, route }) => {
      const scope = route.config?.scope ?? 'public'
      const security = scope === 'public' ? [] : [{ bearer: [scope] }]
      const methods = Array.isArray(route.method) ? route.method : [route.method]
      const response = documentedAnswers(schema ?? {}, scope, methods[0]!)
      return { schema: { ...schema, security, response }, url }
    },
  })
  tokenizeRoutes(api, parts)
  lookupRoutes(api, parts)
  deviceRoutes(api, parts)
  borrowerRoutes(api, parts)
  modelRoutes(api, parts)
  peerRoutes(api, parts)
  chunkRoutes(api, parts)
  adminRoutes(api, parts)
  quotaRoutes(api, parts)
  quarantineRoutes(api, parts)
  storageRoutes(api, parts)
  jobRoutes(api, parts)
  activityRoutes(api, parts)
  healthRoutes(api, parts)
  overviewRoutes(api, parts)
  pageRoutes(api)
  const document = {
    summary: 'This document',
    querystring: NoQuery,
    response: { 200: Type.Unknown({ description: 'OpenAPI 3.1.' }), ...errorAnswers },
  }
  api.get('/openapi.json', { schema: document, config: { scope: 'public' } }, async (_request, reply) => {
    return reply.header('content-type', 'application/json; charset=utf-8').send(JSON.stringify(api.swagger()) as never)
  })
}

function addRows(routes: RouteRow[], route: RouteOptions): void {
  const { scope } = route.config ?? {}
  const methods = Array.isArray(route.method) ? route.method : [route.method]
  if (scope === undefined) throw new TypeError(`${methods.join(',')} ${route.url} declares no scope`)
  for (const method of methods) routes.push({ method, url: route.url, scope })
}

function notFound(routes: readonly RouteRow[], request: FastifyRequest, reply: FastifyReply): Error {
  const path = request.url.split('?', 1)[0]!
  const allowed = routes.filter((route) => pathMatches(route.url, path)).map((route) => route.method)
  if (allowed.length === 0) return new CacheError('NOT_FOUND', 'there is no such route; GET /openapi.json lists them')
  const methods = [...new Set(allowed)].join(', ')
  reply.header('allow', methods)
  return new HttpError('METHOD_NOT_ALLOWED', `this path takes ${methods}`)
}

function pathMatches(pattern: string, path: string): boolean {
  const wanted = pattern.split('/')
  const given = path.split('/')
  return wanted.length === given.length && wanted.every((part, at) => part.startsWith(':') || part === given[at])
}

function sendError(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { status, body, isRetryable } = mapError(error, request.id)
  if (status === 500) {
    request.log.error({ err: error, route: request.routeOptions?.url }, 'failed')
  }
  if (isRetryable && !reply.hasHeader('retry-after')) reply.header('retry-after', '1')
  // What is left of a body that was refused is not worth reading.
  if (status === 413 || status === 415) reply.header('connection', 'close')
  reply.removeHeader('content-length')
  return reply.code(status).header('x-request-id', request.id).type('application/json; charset=utf-8').send(body)
}

function logResponse(request: FastifyRequest, reply: FastifyReply): void {
  const { method, routeOptions } = request
  request.log.debug({ method, route: routeOptions.url, status: reply.statusCode, ms: reply.elapsedTime }, 'served')
}

function requestIdOf(header: string | string[] | undefined, newId: () => string): string {
  return typeof header === 'string' && /^[\w.:-]{1,128}$/.test(header) ? header : newId()
}

// What is no HTTP at all, or came too slowly: answered by hand, in the same shape.
function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket, newId: () => string): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const { status, body } = mapError(brokenRequest(error.code), newId())
  const text = JSON.stringify(body)
  const head = `HTTP/1.1 ${status} Error\r\ncontent-type: application/json; charset=utf-8\r\nconnection: close\r\n`
  socket.end(`${head}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`)
}

function brokenRequest(code: string | undefined): Error {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new HttpError('REQUEST_TIMEOUT', 'the request took too long to arrive')
  if (code === 'HPE_HEADER_OVERFLOW') return new HttpError('HEADERS_TOO_LARGE', 'the headers are over the limit')
  return new CacheError('BAD_REQUEST', 'the request is not valid HTTP')
}
