import { setImmediate as nextTurn } from 'node:timers/promises'
import { promisify } from 'node:util'
import { constants, gzip } from 'node:zlib'
import { renderPieces, type TextFormat } from './prometheus.ts'
import type { SnapshotReader } from './snapshot.ts'

const compress = promisify(gzip)

/** Metrics that do not come from cells. */
export interface ForeignText {
  /** Sample lines in the format, without a closing `# EOF`. */
  text(format: TextFormat): Promise<string>
}

/** One rendering, which several scrapes may share. */
export class Rendering {
  readonly body: Buffer
  #gzipped: Promise<Buffer> | undefined

  constructor(body: Buffer) {
    this.body = body
  }

  /** The body compressed, once. */
  gzipped(): Promise<Buffer> {
    this.#gzipped ??= compress(this.body, { level: constants.Z_BEST_SPEED })
    return this.#gzipped
  }
}

/** Renders all metrics, one rendering at a time; who asks for a format while it is being rendered shares it. */
export class Exposition {
  readonly #reader: SnapshotReader
  readonly #foreign: ForeignText | null
  readonly #pause: () => Promise<unknown>
  readonly #running = new Map<TextFormat, Promise<Rendering>>()
  #last: Promise<unknown> = Promise.resolve()

  /** @param pause lets other work of the thread run between two pieces. */
  constructor(reader: SnapshotReader, foreign: ForeignText | null, pause: () => Promise<unknown> = nextTurn) {
    this.#reader = reader
    this.#foreign = foreign
    this.#pause = pause
  }

  render(format: TextFormat): Promise<Rendering> {
    const running = this.#running.get(format)
    if (running !== undefined) return running
    const rendering = this.#last.then(() => this.#render(format)).finally(() => this.#running.delete(format))
    this.#running.set(format, rendering)
    this.#last = rendering.catch(() => undefined)
    return rendering
  }

  async #render(format: TextFormat): Promise<Rendering> {
    const pieces: Buffer[] = []
    for (const piece of renderPieces(this.#reader.take(), format)) {
      pieces.push(piece)
      await this.#pause()
    }
    if (this.#foreign !== null) pieces.push(Buffer.from(await this.#foreign.text(format)))
    if (format === 'openmetrics') pieces.push(Buffer.from('# EOF\n'))
    return new Rendering(Buffer.concat(pieces))
  }
}
