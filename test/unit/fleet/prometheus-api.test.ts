import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it } from 'vitest'
import { PrometheusApi } from '../../../src/fleet/prometheus-api.ts'

let server: Server | undefined

afterEach(() => {
  server?.close()
})

/** A client of a server that answers everything in one way. */
async function clientOf(status: number, body: unknown): Promise<PrometheusApi> {
  server = createServer((_request, response) => {
    response.writeHead(status, { connection: 'close' }).end(typeof body === 'string' ? body : JSON.stringify(body))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return new PrometheusApi(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
}

it.each([
  ['an engine', { error: { code: 'NOT_FOUND', message: 'there is no such route', requestId: 'x' } }],
  ['a page', '<html></html>'],
  ['a number', 7],
  ['nothing', 'null'],
])('says of %s that it may be no Prometheus server', async (_what, body) => {
  const api = await clientOf(404, body)
  await expect(api.query('up')).rejects.toThrow(/answers 404 and no query result: is it a Prometheus server\?$/)
})

it("passes a server's own words on, on one line", async () => {
  const api = await clientOf(400, { status: 'error', errorType: 'bad_data', error: 'parse error:\n unexpected end' })
  await expect(api.query('up{')).rejects.toThrow('Prometheus refuses: parse error: unexpected end')
})
