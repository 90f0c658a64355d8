import { isUtf8 } from 'node:buffer'
import type { FastifyRequest } from 'fastify'
import { CacheError } from '../../core/errors.ts'
import type { Api } from './api.ts'
import { HttpError } from './error-mapper.ts'
import { badRequest } from './schemas.ts'

/**
 * Has texts of requests taken as they were meant, or refused. The usual decoders put a replacement character where bytes
 * are no UTF-8, and leave a percent sign that encodes nothing: two salts, or two prompts, would become one.
 */
export function takeExactText(api: Api): void {
  const parse = api.getDefaultJsonParser('error', 'error')
  api.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    if (isUtf8(body)) return parse(request, body.toString('utf8'), done)
    done(badRequest('body', 'the body is not valid UTF-8'))
  })
  api.addHook('onRequest', async (request) => {
    checkQuery(request)
    checkEncoding(request)
  })
}

function checkQuery({ url }: FastifyRequest): void {
  const mark = url.indexOf('?')
  if (mark < 0) return
  try {
    decodeURIComponent(url.slice(mark + 1))
  } catch {
    throw new CacheError('BAD_REQUEST', 'the URL is not valid')
  }
}

function checkEncoding({ method, headers }: FastifyRequest): void {
  if (method === 'GET' || method === 'HEAD') return // no body is looked at
  const encoding = headers['content-encoding'] ?? 'identity'
  if (encoding.toLowerCase() === 'identity') return
  throw new HttpError('UNSUPPORTED_MEDIA_TYPE', 'the body is encoded, and bodies are taken as they are only')
}
