import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** An answer in place of the server's. */
export interface Weather {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Uint8Array
  /** The connection is reset after so many bytes of the body, whatever its length said. */
  readonly cutAfterBytes?: number
}

/** What `answer` may decide by. */
export interface SeenRequest {
  readonly method: string
  /** With the query. */
  readonly path: string
  /** Of this request, 1 upwards. */
  readonly number: number
}

/** An HTTP proxy of this process before an S3 server: it passes requests on as they are, or answers by itself. */
export class S3Weather {
  readonly seen: SeenRequest[] = []
  /** Of `seen`, in the order in which the server's answers to them were passed on whole. */
  readonly answered: SeenRequest[] = []
  /** Decides each request: undefined passes it on; 'lose' does, and drops the answer; 'hang' never answers. */
  answer: (request: SeenRequest) => Weather | 'hang' | 'lose' | undefined = () => undefined
  readonly #server: Server
  readonly #targetPort: number

  private constructor(server: Server, targetPort: number) {
    this.#server = server
    this.#targetPort = targetPort
    server.on('request', (incoming, response) => this.#take(incoming, response))
  }

  static async start(targetPort: number): Promise<S3Weather> {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new S3Weather(server, targetPort)
  }

  get endpoint(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #take(incoming: IncomingMessage, response: ServerResponse): void {
    const seen = { method: incoming.method!, path: incoming.url!, number: this.seen.length + 1 }
    this.seen.push(seen)
    incoming.on('error', () => undefined)
    const weather = this.answer(seen)
    if (weather === undefined || weather === 'lose') this.#pass(incoming, response, seen, weather === 'lose')
    else if (weather === 'hang') incoming.resume()
    else {
      incoming.resume()
      reply(response, weather)
    }
  }

  #pass(incoming: IncomingMessage, response: ServerResponse, seen: SeenRequest, isLost: boolean): void {
    const { method, url, headers } = incoming
    const outgoing = request({ host: '127.0.0.1', port: this.#targetPort, method, path: url, headers }, (answer) => {
      if (isLost) {
        response.destroy()
        answer.resume()
        return
      }
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
      response.on('finish', () => this.answered.push(seen))
      answer.on('error', () => response.destroy())
    })
    outgoing.on('error', () => response.destroy())
    incoming.pipe(outgoing)
  }
}

function reply(response: ServerResponse, { status, headers, body = '', cutAfterBytes }: Weather): void {
  const bytes = Buffer.from(body as string)
  response.writeHead(status, { 'content-length': bytes.length, ...headers })
  if (cutAfterBytes === undefined) response.end(bytes)
  else response.write(bytes.subarray(0, cutAfterBytes), () => response.destroy())
}

/** The body of an error as S3 writes it. */
export function errorDocument(code: string, more = ''): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>told so</Message>${more}</Error>`
}
