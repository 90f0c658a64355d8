import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { constants, createGzip } from 'node:zlib'
import { renderPieces, SLICE_LINES, type TextFormat } from './prometheus.ts'
import type { SnapshotReader } from './snapshot.ts'
import { TextBlocks } from './text-blocks.ts'

const GZIP = { level: constants.Z_BEST_SPEED, chunkSize: 256 * 1024 }

/** Metrics that do not come from cells. */
export interface ForeignText {
  /** Sample lines in the format, without a closing `# EOF`. */
  text(format: TextFormat): Promise<string>
}

/** One rendering, which several scrapes may share. It stays in pieces: to join 12 MB takes the thread for milliseconds. */
export class Rendering {
  readonly pieces: readonly Buffer[]
  readonly #blocks: TextBlocks | null
  #gzipped: Promise<readonly Buffer[]> | undefined

  /** @param blocks where the pieces lie, and go back to; null = nowhere. */
  constructor(pieces: readonly Buffer[], blocks: TextBlocks | null = null) {
    this.pieces = pieces
    this.#blocks = blocks
  }

  /** All of it, joined anew by each call. */
  get body(): Buffer {
    return Buffer.concat(this.pieces)
  }

  /** Pieces of it compressed, once, on the thread pool. */
  gzipped(): Promise<readonly Buffer[]> {
    this.#gzipped ??= compressed(this.pieces)
    return this.#gzipped
  }

  /** Everybody has been sent it: its memory is used again. To be called once at most; without it the memory is collected. */
  release(): void {
    const give = () => this.#blocks?.give(this.pieces)
    if (this.#gzipped === undefined) give()
    else void this.#gzipped.then(give, give) // the compressor may still be reading
  }
}

async function compressed(pieces: readonly Buffer[]): Promise<Buffer[]> {
  const out: Buffer[] = []
  await pipeline(Readable.from(pieces), createGzip(GZIP), async (gzip: AsyncIterable<Buffer>) => {
    for await (const piece of gzip) out.push(piece)
  })
  return out
}

/** Renders all metrics, one rendering at a time; who asks for a format while it is being rendered shares it. */
export class Exposition {
  readonly #reader: SnapshotReader
  readonly #foreign: ForeignText | null
  readonly #pause: () => Promise<unknown>
  readonly #blocks = new TextBlocks()
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
    for (const piece of renderPieces(this.#reader.take(), format, SLICE_LINES, this.#blocks)) {
      pieces.push(piece)
      await this.#pause()
    }
    if (this.#foreign !== null) pieces.push(Buffer.from(await this.#foreign.text(format)))
    if (format === 'openmetrics') pieces.push(Buffer.from('# EOF\n'))
    return new Rendering(pieces, this.#blocks)
  }
}
