import { createHash } from 'node:crypto'
import type { BodySink } from './record-sink.ts'
import type { S3Client } from './s3-client.ts'
import { serviceCode } from './service-error.ts'
import { elements, encodeText, textOf } from './xml.ts'

/** An object as a listing shows it. */
export interface ListedObject {
  readonly key: string
  readonly bytes: number
  readonly modifiedMs: number
}

/** Names that one request deletes at most: a limit of S3. */
const DELETE_MAX = 1000
/** Tries of dropping an upload, and the pause before the second; each further one is twice as long. */
const DROP_TRIES = 5
const DROP_PAUSE_MS = 50

/** The operations of S3 that the adapter uses, on one bucket. Errors are those of `S3Client.send`. */
export class Bucket {
  readonly #client: S3Client
  /** The server has DeleteObjects. */
  #deletesMany = true

  constructor(client: S3Client) {
    this.#client = client
  }

  /** Writes an object whole. @param pieces its bytes, in order; read in place until the promise settles. */
  async put(key: string, pieces: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    await this.#client.send({ what: 'the upload of an object', method: 'PUT', key, pieces }, signal)
  }

  /** Reads an object into a sink. False when there is none. */
  async get(key: string, sink: BodySink, signal: AbortSignal): Promise<boolean> {
    const request = { what: 'the download of an object', method: 'GET', key, sink, expected: [404] } as const
    return (await this.#client.send(request, signal)).status !== 404
  }

  /** Reads a small object, or the first `bytes` of one. Undefined when there is none. */
  async getBytes(key: string, signal: AbortSignal, bytes?: number): Promise<Buffer | undefined> {
    const pieces: Buffer[] = []
    const sink: BodySink = {
      start: () => {
        pieces.length = 0
      },
      take: (piece) => pieces.push(Buffer.from(piece)) > 0,
    }
    const headers = bytes === undefined ? {} : { range: `bytes=0-${bytes - 1}` }
    const request = { what: 'the download of an object', method: 'GET', key, headers, sink, expected: [404, 416] }
    const answer = await this.#client.send(request as never, signal)
    return answer.status >= 300 ? undefined : Buffer.concat(pieces)
  }

  /** Bytes of an object; undefined when there is none. */
  async head(key: string, signal: AbortSignal): Promise<number | undefined> {
    const request = { what: 'the lookup of an object', method: 'HEAD', key, expected: [404] } as const
    const answer = await this.#client.send(request, signal)
    return answer.status === 404 ? undefined : Number(answer.headers['content-length'])
  }

  /** Deletes objects; absent ones are fine. @returns the names that could not be deleted. */
  async remove(keys: readonly string[], signal: AbortSignal): Promise<Set<string>> {
    const failed = new Set<string>()
    for (let at = 0; at < keys.length; at += DELETE_MAX) {
      const some = keys.slice(at, at + DELETE_MAX)
      const isMany = some.length > 1 && this.#deletesMany
      for (const key of isMany ? await this.#removeMany(some, signal) : await this.#removeEach(some, signal)) {
        failed.add(key)
      }
    }
    return failed
  }

  /** Copies an object within the bucket; nothing travels. */
  async copy(from: string, bucket: string, to: string, signal: AbortSignal): Promise<void> {
    const source = `/${bucket}/${from}`.split('/').map(encodeURIComponent).join('/')
    const headers = { 'x-amz-copy-source': source }
    await this.#client.send({ what: 'the copy of an object', method: 'PUT', key: to, headers }, signal)
  }

  /** Objects whose names begin with `prefix`, a page at a time, in the order of their names. */
  async *list(prefix: string, limitMs: number, signal?: AbortSignal): AsyncGenerator<ListedObject[]> {
    let token = ''
    do {
      const query: [string, string][] = [
        ['list-type', '2'],
        ['prefix', prefix],
      ]
      if (token !== '') query.push(['continuation-token', token])
      const text = await this.#page('the listing of the bucket', query, limitMs, signal)
      yield elements(text, 'Contents').map((entry) => ({
        key: textOf(entry, 'Key'),
        bytes: Number(textOf(entry, 'Size')),
        modifiedMs: Date.parse(textOf(entry, 'LastModified')),
      }))
      token = textOf(text, 'IsTruncated') === 'true' ? textOf(text, 'NextContinuationToken') : ''
    } while (token !== '')
  }

  /** Uploads in parts that were neither completed nor aborted. The first thousand: the next opening finds the rest. */
  async uploads(
    prefix: string,
    limitMs: number,
    signal?: AbortSignal,
  ): Promise<{ key: string; id: string; startedMs: number }[]> {
    const query: [string, string][] = [
      ['uploads', ''],
      ['prefix', prefix],
    ]
    const text = await this.#page('the listing of uploads', query, limitMs, signal)
    return elements(text, 'Upload').map((entry) => ({
      key: textOf(entry, 'Key'),
      id: textOf(entry, 'UploadId'),
      startedMs: Date.parse(textOf(entry, 'Initiated')),
    }))
  }

  /** Starts an upload in parts. @returns its id. */
  async startUpload(key: string, signal: AbortSignal): Promise<string> {
    const query = [['uploads', '']] as const
    const request = { what: 'the start of an upload', method: 'POST', key, query } as const
    return textOf((await this.#client.send(request, signal)).text, 'UploadId')
  }

  /** Writes part `number`, from 1. @returns its tag, for `completeUpload`. */
  async putPart(key: string, id: string, number: number, pieces: readonly Uint8Array[], signal: AbortSignal) {
    const query = [
      ['partNumber', String(number)],
      ['uploadId', id],
    ] as const
    const request = { what: 'the upload of a part', method: 'PUT', key, query, pieces } as const
    return (await this.#client.send(request, signal)).headers.etag ?? ''
  }

  /** Makes the object of its parts: only now it is there. False when the upload is gone. */
  async completeUpload(key: string, id: string, tags: readonly string[], signal: AbortSignal): Promise<boolean> {
    const parts = tags
      .map((tag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${encodeText(tag)}</ETag></Part>`)
      .join('')
    const pieces = [Buffer.from(`<CompleteMultipartUpload>${parts}</CompleteMultipartUpload>`)]
    const query = [['uploadId', id]] as const
    const request = { what: 'the end of an upload', method: 'POST', key, query, pieces, expected: [404] } as const
    const answer = await this.#client.send(request, signal)
    // S3 may answer 200 before it knows, and then send an error.
    return answer.status !== 404 && serviceCode(answer) === ''
  }

  /**
   * Drops an upload with its parts. One that is gone is fine. A part that was under way may come in after the upload
   * was dropped, so the parts are asked for until there is no such upload (S3 API, AbortMultipartUpload).
   */
  async abortUpload(key: string, id: string, limitMs: number, signal?: AbortSignal): Promise<void> {
    const query = [['uploadId', id]] as const
    const request = { what: 'the end of an upload', key, query, expected: [404] } as const
    await this.within(limitMs, signal, async (limited) => {
      for (let tries = 0; tries < DROP_TRIES; tries += 1) {
        if (tries > 0) await this.#client.pause(DROP_PAUSE_MS * 2 ** (tries - 1), limited)
        const dropped = await this.#client.send({ ...request, method: 'DELETE' }, limited)
        if (dropped.status === 404) return
        const parts = await this.#client.send({ ...request, method: 'GET' }, limited)
        if (parts.status === 404) return
      }
    })
  }

  /** Runs an operation that ends after `limitMs`, or with a signal. */
  async within<T>(
    limitMs: number,
    signal: AbortSignal | undefined,
    run: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const limit = this.#client.limit(limitMs, signal)
    try {
      return await run(limit.signal)
    } finally {
      limit.done()
    }
  }

  #page(
    what: string,
    query: readonly (readonly [string, string])[],
    limitMs: number,
    signal?: AbortSignal,
  ): Promise<string> {
    return this.within(limitMs, signal, async (limited) => {
      return (await this.#client.send({ what, method: 'GET', key: '', query }, limited)).text
    })
  }

  async #removeMany(keys: readonly string[], signal: AbortSignal): Promise<string[]> {
    const objects = keys.map((key) => `<Object><Key>${encodeText(key)}</Key></Object>`).join('')
    const body = Buffer.from(`<Delete><Quiet>true</Quiet>${objects}</Delete>`)
    const headers = { 'content-md5': createHash('md5').update(body).digest('base64') }
    const request = { what: 'the deletion of objects', method: 'POST', key: '', query: [['delete', '']] } as const
    const answer = await this.#client.send({ ...request, headers, pieces: [body], expected: [405, 501] }, signal)
    if (answer.status < 300) return elements(answer.text, 'Error').map((entry) => textOf(entry, 'Key'))
    this.#deletesMany = false // some services lack it
    return this.#removeEach(keys, signal)
  }

  async #removeEach(keys: readonly string[], signal: AbortSignal): Promise<string[]> {
    const failed: string[] = []
    let error: unknown
    for (const key of keys) {
      const request = { what: 'the deletion of an object', method: 'DELETE', key, expected: [404] } as const
      try {
        await this.#client.send(request, signal)
      } catch (cause) {
        error = cause
        failed.push(key)
      }
    }
    if (keys.length > 0 && failed.length === keys.length) throw error
    return failed
  }
}
