import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { CacheError } from '../../../core/errors.ts'
import { type PageFile, PageFiles } from '../../../web/page-files.ts'
import type { Api } from '../api.ts'
import { errorAnswers, NoQuery } from '../schemas.ts'

/** What the page may do: load its own files and ask its own engine. No inline code, no frames, no HTML from text. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
].join('; ')

const HEADERS = {
  'content-security-policy': POLICY,
  'cache-control': 'no-cache',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const

const Text = Type.Unsafe<unknown>({ type: 'string', description: 'The file.' })
const Unchanged = Type.Null({ description: 'As the If-None-Match of the request has it.' })
const answers = { 200: Text, 304: Unchanged, ...errorAnswers }

/** The dashboard page. Its files are open to whoever reaches the address: they hold nothing of the engine. */
export function pageRoutes(api: Api): void {
  const files = PageFiles.load()
  const page = { summary: 'The dashboard page', querystring: NoQuery, response: answers }
  api.get('/', { schema: page, config: { scope: 'public' } }, async (request, reply) => {
    return sendFile(files.get('index.html'), request, reply)
  })
  const file = {
    summary: 'A file of the dashboard page',
    params: Type.Object({ name: Type.String({ maxLength: 64 }) }),
    querystring: NoQuery,
    response: answers,
  }
  api.get('/dashboard/:name', { schema: file, config: { scope: 'public' } }, async (request, reply) => {
    return sendFile(files.get(request.params.name), request, reply)
  })
}

function sendFile(file: PageFile | undefined, request: FastifyRequest, reply: FastifyReply): FastifyReply {
  if (file === undefined) throw new CacheError('NOT_FOUND', 'the dashboard page has no such file', { field: 'name' })
  reply.headers({ ...HEADERS, etag: file.etag })
  if (isKnown(request.headers['if-none-match'], file.etag)) return reply.code(304).send()
  return reply.type(file.contentType).send(file.body)
}

function isKnown(header: string | undefined, etag: string): boolean {
  const tags = (header ?? '').split(',').map((tag) => tag.trim().replace(/^W\//, ''))
  return tags.includes(etag) || tags.includes('*')
}
