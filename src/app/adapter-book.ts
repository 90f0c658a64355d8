import { open, readFile, rename } from 'node:fs/promises'
import { join } from 'node:path'
import type { ServeConfig } from '../config/load-config.ts'
import { readMachineFacts } from '../config/machine-facts.ts'
import { claimOf, readRuntimeAdapter, shownAdapter } from '../config/runtime-adapter.ts'
import { CacheError } from '../core/errors.ts'
import type { L2Adapter } from '../l2/adapter.ts'
import type { AdapterOptions } from '../l2/options.ts'
import type { AdapterBook } from '../server/rpc/storage-service.ts'

// DATA_DIR/l2-adapters.json: adapters that were added while an engine ran, in order, as they were written.
// {"version":1,"adapters":[{"name":...,"type":...,...}]}. Mode 0600: options may hold secrets. Replaced whole.
const FILE = 'l2-adapters.json'
const VERSION = 1

type Entry = Readonly<Record<string, unknown>>

export interface AdapterBookParts {
  readonly config: ServeConfig
  /** Of the data directory. */
  readonly directory: string
  /** Variables that options may name. */
  readonly env: (variable: string) => string | undefined
  /** An adapter that is not yet open. */
  readonly make: (options: AdapterOptions) => L2Adapter
}

/** The adapters of an engine by origin. The configuration is the truth at a start; what was added since is beside it. */
export class AdapterFileBook implements AdapterBook {
  readonly #parts: AdapterBookParts
  /** Of attached adapters, by name. */
  readonly #options = new Map<string, AdapterOptions>()
  /** Names of attached adapters that are not those of the configuration. */
  readonly #added = new Set<string>()
  /** As they were written, by name; also those that this version cannot read. */
  readonly #entries = new Map<string, Entry>()
  #writing: Promise<void> = Promise.resolve()

  constructor(parts: AdapterBookParts) {
    this.#parts = parts
    for (const options of parts.config.l2.adapters) this.#options.set(options.name, options)
  }

  /** Entries of earlier engines, in order. @throws CacheError DATA_DIR_UNWRITABLE for a file that cannot be read */
  async load(): Promise<Entry[]> {
    let text: string
    try {
      text = await readFile(this.#path, 'utf8')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw this.#failure('read', error)
    }
    try {
      const { version, adapters } = JSON.parse(text) as { version: number; adapters: Entry[] }
      if (version !== VERSION || !Array.isArray(adapters)) throw new Error(`it is of version ${version}`)
      for (const entry of adapters) this.#entries.set(String(entry.name), entry)
    } catch (error) {
      throw this.#failure('understood', error)
    }
    return [...this.#entries.values()]
  }

  read(given: Entry): AdapterOptions {
    const options = readRuntimeAdapter(given, this.#parts.config, { machine: readMachineFacts(), env: this.#parts.env })
    const claim = claimOf(options)
    const other = [...this.#options.values()].find((one) => claim !== undefined && claimOf(one) === claim)
    if (other === undefined || other.name === options.name) return options
    throw new CacheError('L2_NAME_TAKEN', `${claim} belongs to the adapter ${other.name}`, { field: 'name' })
  }

  make(options: AdapterOptions): L2Adapter {
    return this.#parts.make(options)
  }

  async keep(options: AdapterOptions, given: Entry): Promise<void> {
    // At the next start the configuration wins: what it names is not kept beside it.
    if (!this.isConfigured(options.name)) await this.#change(() => this.#entries.set(options.name, given))
    this.adopt(options)
  }

  /** Shows an adapter that is not of the configuration as attached. */
  adopt(options: AdapterOptions): void {
    this.#options.set(options.name, options)
    this.#added.add(options.name)
  }

  async forget(name: string): Promise<void> {
    if (this.#entries.has(name) && this.#added.has(name)) await this.#change(() => this.#entries.delete(name))
    this.#options.delete(name)
    this.#added.delete(name)
  }

  originOf(name: string): 'config' | 'runtime' {
    return this.#added.has(name) ? 'runtime' : 'config'
  }

  isConfigured(name: string): boolean {
    return this.#parts.config.l2.adapters.some((one) => one.name === name)
  }

  shownOptions(name: string): Entry {
    const options = this.#options.get(name)
    return options === undefined ? {} : shownAdapter(options)
  }

  get #path(): string {
    return join(this.#parts.directory, FILE)
  }

  /** Changes the entries and writes them; takes the change back when they cannot be written. */
  async #change(apply: () => unknown): Promise<void> {
    const before = [...this.#entries]
    apply()
    const written = this.#writing.then(() => this.#write())
    this.#writing = written.catch(() => undefined)
    try {
      await written
    } catch (error) {
      this.#entries.clear()
      for (const [name, entry] of before) this.#entries.set(name, entry)
      throw this.#failure('written', error)
    }
  }

  async #write(): Promise<void> {
    const path = `${this.#path}.tmp`
    const file = await open(path, 'w', 0o600)
    try {
      await file.writeFile(`${JSON.stringify({ version: VERSION, adapters: [...this.#entries.values()] })}\n`)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(path, this.#path)
    const directory = await open(this.#parts.directory, 'r')
    await directory.sync().finally(() => directory.close())
  }

  #failure(what: string, error: unknown): CacheError {
    const reason = (error as NodeJS.ErrnoException).code ?? (error as Error).message
    const message = `${this.#path} cannot be ${what} (${reason}); mend it, or move it away`
    return new CacheError('DATA_DIR_UNWRITABLE', message, { field: '--data-dir' }, error)
  }
}
