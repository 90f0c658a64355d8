import { connect, type Socket } from 'node:net'
import type { SampleSet } from './samples.ts'

/** Round trips of as many bytes as a ping has, on a bare socket: what no transport can be below. */
export class NetPings {
  readonly #socket: Socket
  readonly #bytes = Buffer.alloc(14)
  #answered: () => void = () => {}

  constructor(port: number) {
    this.#socket = connect({ host: '127.0.0.1', port, noDelay: true })
    this.#socket.on('data', () => this.#answered())
  }

  async ping(samples: SampleSet | null): Promise<void> {
    const start = performance.now()
    const answer = new Promise<void>((resolve) => {
      this.#answered = resolve
    })
    this.#socket.write(this.#bytes)
    await answer
    samples?.push('ping', performance.now() - start)
  }

  close(): void {
    this.#socket.destroy()
  }
}
