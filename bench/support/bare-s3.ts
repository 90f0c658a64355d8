import { type Dispatcher, Pool } from 'undici'
import type { S3AdapterOptions } from '../../src/l2/adapters/s3/options.ts'
import { payloadHashOf, RequestSigner, UNSIGNED_PAYLOAD } from '../../src/l2/adapters/s3/sigv4.ts'

/** What a thread that runs the loop can be asked for. Views of object `at` begin at `at * stepBytes`. */
export interface BareS3Calls {
  put(objects: number, stepBytes: number, bytes: number): Promise<void>
  get(objects: number, stepBytes: number, bytes: number): Promise<void>
  delete(objects: number): Promise<void>
}

/**
 * The floor of the s3 adapter: a loop over undici that signs what the adapter is told to sign. Bodies are sent as they
 * lie in memory; answers are copied to where they belong as they come, and not looked at.
 */
export class BareS3 implements BareS3Calls {
  readonly #options: S3AdapterOptions
  readonly #memory: Uint8Array
  readonly #signer: RequestSigner
  readonly #pool: Pool
  readonly #depth: number

  constructor(options: S3AdapterOptions, memory: Uint8Array, depth: number) {
    this.#options = options
    this.#memory = memory
    this.#signer = new RequestSigner(options.region)
    this.#pool = new Pool(options.endpoint, { connections: depth, allowH2: false })
    this.#depth = depth
  }

  put(objects: number, stepBytes: number, bytes: number): Promise<void> {
    const { buffer, byteOffset } = this.#memory
    return this.#each(objects, (at) =>
      this.#one('PUT', at, Buffer.from(buffer as ArrayBuffer, byteOffset + at * stepBytes, bytes)),
    )
  }

  /** @throws Error when an object has another length. */
  get(objects: number, stepBytes: number, bytes: number): Promise<void> {
    return this.#each(objects, (at) =>
      this.#one(
        'GET',
        at,
        null,
        this.#memory.subarray(at * stepBytes, at * stepBytes + bytes) as Uint8Array<ArrayBuffer>,
      ),
    )
  }

  delete(objects: number): Promise<void> {
    return this.#each(objects, (at) => this.#one('DELETE', at, null))
  }

  async #each(objects: number, one: (at: number) => Promise<void>): Promise<void> {
    let next = 0
    const run = async () => {
      while (next < objects) {
        next += 1
        await one(next - 1)
      }
    }
    await Promise.all(Array.from({ length: this.#depth }, run))
  }

  #one(method: string, at: number, body: Buffer | null, target = new Uint8Array(0)): Promise<void> {
    const { endpoint, bucket } = this.#options
    const { host } = new URL(endpoint)
    const path = `/${bucket}/bare/${at}`
    const isSigned = body === null || this.#options.payload === 'signed'
    const payloadHash = isSigned ? payloadHashOf(body === null ? [] : [body]) : UNSIGNED_PAYLOAD
    const parts = { method, host, path, query: [], headers: {}, payloadHash }
    const headers = this.#signer.sign(parts, this.#options, Date.now())
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let length = 0
    let status = 0
    this.#pool.dispatch(
      { method: method as Dispatcher.HttpMethod, path, headers, body },
      {
        onRequestStart: () => undefined,
        onResponseStart: (_controller, code) => {
          status = code
        },
        onResponseData: (_controller, piece) => {
          target.set(piece, length)
          length += piece.length
        },
        onResponseEnd: () => {
          if (status < 300 && length === target.length) resolve()
          else reject(new Error(`${method}: status ${status}, ${length} bytes`))
        },
        onResponseError: (_controller, error) => reject(error),
      },
    )
    return promise
  }
}
