import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

/** One file of the dashboard page, ready to send. */
export interface PageFile {
  readonly contentType: string
  readonly body: Buffer
  /** Of the bytes, quoted as the header wants it. */
  readonly etag: string
}

const CONTENT_TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/**
 * The files of the dashboard page by name: those of the folder `page/`, sent as they lie there, and uPlot from its
 * package. They are read once.
 */
export class PageFiles {
  readonly #files: ReadonlyMap<string, PageFile>

  private constructor(files: ReadonlyMap<string, PageFile>) {
    this.#files = files
  }

  /** @throws Error when a file of the installation is missing. */
  static load(): PageFiles {
    const folder = new URL('./page/', import.meta.url)
    const sources = new Map(readdirSync(folder).map((name) => [name, new URL(name, folder).href]))
    sources.set('uplot.js', import.meta.resolve('uplot/dist/uPlot.iife.min.js'))
    sources.set('uplot.css', import.meta.resolve('uplot/dist/uPlot.min.css'))
    const served = [...sources].filter(([name]) => extname(name) in CONTENT_TYPES)
    return new PageFiles(new Map(served.map(([name, url]) => [name, readPageFile(name, fileURLToPath(url))])))
  }

  /** The file of this name; undefined when there is none. Never looks at the disk. */
  get(name: string): PageFile | undefined {
    return this.#files.get(name)
  }

  get names(): readonly string[] {
    return [...this.#files.keys()]
  }
}

function readPageFile(name: string, path: string): PageFile {
  const body = readFileSync(path)
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 27)}"`
  return { contentType: CONTENT_TYPES[extname(name)]!, body, etag }
}
