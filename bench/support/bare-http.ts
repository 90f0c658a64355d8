import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** The floor of the HTTP API: node's own server in a process of its own. `?bytes=N` says how long the answer is. */
const bodies = new Map<number, Buffer>()
const server = createServer((request, response) => {
  const bytes = Number(new URL(request.url!, 'http://bare').searchParams.get('bytes'))
  const body = bodies.get(bytes) ?? Buffer.alloc(bytes, 'a')
  bodies.set(bytes, body)
  request.resume().once('end', () => {
    response.setHeader('content-type', 'text/plain')
    response.end(body)
  })
})
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
process.once('SIGTERM', () => process.exit(0))
process.stdin.resume().once('close', () => process.exit(0))
