import type { IncomingMessage } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'

/** What is read and dropped of a body at most; the connection ends when more comes. */
const DROPPED_BYTES_MAX = 64 * 1024 * 1024

/**
 * Has a client see the answer to a request whose body was refused before it was read. Fastify closes the connection
 * then, and a client that is still sending gets a reset in place of the answer; here the rest is read and dropped.
 *
 * Bounded by `DROPPED_BYTES_MAX` and by the time that a request has to arrive in.
 */
export function keepForAnswer({ raw }: FastifyRequest, reply: FastifyReply): void {
  if (raw.complete || reply.getHeader('connection') !== 'close') return
  if (Number(raw.headers['content-length'] ?? 0) > DROPPED_BYTES_MAX) return
  reply.removeHeader('connection')
  dropRest(raw)
}

function dropRest(raw: IncomingMessage): void {
  let dropped = 0
  raw.on('data', (piece: Uint8Array) => {
    dropped += piece.length
    if (dropped > DROPPED_BYTES_MAX) raw.destroy()
  })
  raw.resume()
}
