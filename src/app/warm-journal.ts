import { closeSync, constants, openSync, readFileSync, renameSync, rmSync, writeSync } from 'node:fs'
import { CacheError } from '../core/errors.ts'
import type { RegisteredModel } from '../engine/model-registry.ts'
import type { SpaceSpec } from '../l1/key-spaces.ts'
import type { RegisteredWorker } from '../server/mp/parts.ts'

/** A key space, in the order of their ids. */
export type JournalSpace = Pick<SpaceSpec, 'model' | 'salt' | 'ranks' | 'shardBytes' | 'layout'> & {
  /** The spaces of its model before it were retired before it was opened. */
  readonly isAfterRetirement?: boolean
}

/** What a journal says, all in all. */
export interface JournalContents {
  /** The models that have a part of L1, in the order of the parts. */
  readonly parts: readonly string[]
  readonly spaces: readonly JournalSpace[]
  readonly models: readonly RegisteredModel[]
  readonly workers: readonly RegisteredWorker[]
}

type Row =
  | { readonly kind: 'head'; readonly version: number; readonly uuid: string }
  | { readonly kind: 'part'; readonly model: string }
  | ({ readonly kind: 'space' } & JournalSpace)
  | ({ readonly kind: 'model' } & RegisteredModel)
  | {
      readonly kind: 'worker'
      readonly id: string
      readonly owner: number
      readonly generation: string
      readonly context: object
    }
  | { readonly kind: 'gone'; readonly id: string }

const VERSION = 1
const EMPTY: JournalContents = { parts: [], spaces: [], models: [], workers: [] }

/**
 * The names behind the numbers in L1's tables, and who is registered: lines of JSON in a file beside the segment. A line
 * is written before anything is said that depends on it. Rows come with new tenants and workers, not with requests.
 *
 *   head    the segment that it belongs to         part     a model got the next part of L1
 *   space   the next key space        model    a layout that was announced, in the place of one before
 *   worker  a worker registered       gone     it left, or was given up
 *
 * The last line of a killed engine may be torn: nobody was told what it says. A journal that cannot be written any more
 * (shared memory is full) ends there; what it does not name is not taken over by the next engine.
 */
export class WarmJournal {
  readonly #fd: number
  readonly #onBroken: (error: unknown) => void
  #isBroken = false

  private constructor(fd: number, onBroken: (error: unknown) => void) {
    this.#fd = fd
    this.#onBroken = onBroken
  }

  /** What the journal of this segment says; undefined when there is none, or it is another's. */
  static read(path: string, uuid: string): JournalContents | undefined {
    let text: string
    try {
      text = readFileSync(path, { encoding: 'utf8', flag: constants.O_RDONLY | constants.O_NOFOLLOW })
    } catch {
      return undefined
    }
    const rows: Row[] = []
    for (const line of text.split('\n').slice(0, -1)) {
      const row = parseRow(line)
      if (row === undefined) break
      rows.push(row)
    }
    const [head, ...rest] = rows
    if (head?.kind !== 'head' || head.version !== VERSION || head.uuid !== uuid) return undefined
    return contentsOf(rest)
  }

  /**
   * A new journal that says this, in the place of what lies there.
   * @param onBroken told once, when a line could not be written.
   * @throws the system's error
   */
  static create(
    path: string,
    uuid: string,
    contents: JournalContents,
    onBroken: (error: unknown) => void,
  ): WarmJournal {
    const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW, O_APPEND } = constants
    const next = `${path}.next`
    rmSync(next, { force: true })
    const fd = openSync(next, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND, 0o600)
    const journal = new WarmJournal(fd, (error) => {
      throw error
    })
    journal.#append({ kind: 'head', version: VERSION, uuid })
    for (const model of contents.parts) journal.part(model)
    for (const space of contents.spaces) journal.space(space)
    for (const model of contents.models) journal.model(model)
    for (const worker of contents.workers) journal.worker(worker)
    renameSync(next, path)
    return new WarmJournal(fd, onBroken)
  }

  /** @throws CacheError NO_ROOM when it cannot be written: the next engine would give the part to another model. */
  part(model: string): void {
    this.#append({ kind: 'part', model })
    if (!this.#isBroken) return
    const message = `model ${JSON.stringify(model)} gets no part of L1: it cannot be written down whose it is`
    throw new CacheError('NO_ROOM', message, { field: 'model' })
  }

  space({ model, salt, ranks, shardBytes, layout, isAfterRetirement = false }: JournalSpace): void {
    this.#append({ kind: 'space', model, salt, ranks, shardBytes, layout, isAfterRetirement })
  }

  model(model: RegisteredModel): void {
    this.#append({ kind: 'model', ...model })
  }

  worker({ context, owner, generation }: RegisteredWorker): void {
    const { instanceId, ...rest } = context
    this.#append({ kind: 'worker', id: String(instanceId), owner, generation, context: rest })
  }

  gone(instanceId: bigint): void {
    this.#append({ kind: 'gone', id: String(instanceId) })
  }

  close(): void {
    closeSync(this.#fd)
  }

  #append(row: Row): void {
    if (this.#isBroken) return
    try {
      const line = Buffer.from(`${JSON.stringify(row)}\n`)
      if (writeSync(this.#fd, line) !== line.length) throw new Error('the line was cut')
    } catch (error) {
      this.#isBroken = true
      this.#onBroken(error)
    }
  }
}

function parseRow(line: string): Row | undefined {
  try {
    const row = JSON.parse(line) as Row
    return typeof row === 'object' && row !== null ? row : undefined
  } catch {
    return undefined
  }
}

function contentsOf(rows: readonly Row[]): JournalContents {
  const parts: string[] = []
  const spaces: JournalSpace[] = []
  const models = new Map<string, RegisteredModel>()
  const workers = new Map<string, RegisteredWorker>()
  try {
    for (const { kind, ...row } of rows) {
      if (kind === 'part') parts.push(String((row as { model: string }).model))
      if (kind === 'space') spaces.push(row as JournalSpace)
      if (kind === 'model') addModel(models, row as RegisteredModel)
      if (kind === 'gone') workers.delete((row as { id: string }).id)
      if (kind !== 'worker') continue
      const { id, context, ...rest } = row as { id: string } & RegisteredWorker
      workers.delete(id)
      workers.set(id, { ...rest, context: { ...context, instanceId: BigInt(id) } })
    }
  } catch {
    return EMPTY // a number that is none
  }
  return { parts, spaces, models: [...models.values()], workers: [...workers.values()] }
}

function addModel(models: Map<string, RegisteredModel>, model: RegisteredModel): void {
  models.set(`${model.ranks}:${model.model}`, model)
}
