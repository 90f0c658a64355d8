import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** A text of one file of `src/`, and what stands there when nothing is recorded. */
export interface SourceEdit {
  readonly file: string
  readonly from: string
  readonly to: string
}

const SRC = join(import.meta.dirname, '../../src')
/** Marks the modules of the other build, so that the loader keeps both apart. */
const MARK = '?recording=off'

function returns(file: string, signature: string, value = ''): SourceEdit {
  return { file, from: `${signature} {\n`, to: `${signature} {\n  return ${value}\n` }
}

/**
 * What recording is: counters added to in place, events made and published, and what is kept only for the metrics
 * (ghosts, stamps of the last use). Cells that the engine itself reads stay.
 */
export const RECORDING_EDITS: readonly SourceEdit[] = [
  returns('events/bus.ts', '  publish(type: EventType, tenant: number, timeMs: number, a = 0, b = 0, c = 0): void'),
  returns('events/bus.ts', '  enqueue(type: EventType, tenant: number, timeMs: number, a = 0, b = 0, c = 0): void'),
  returns('engine/engine.ts', '  #publishAsked(space: SpaceId, chain: HashChain): void'),
  returns('engine/engine.ts', '  #publishStored(space: SpaceId, committed: ChunkRefs): void'),
  returns('engine/lookup-counts.ts', '  #add(tenant: number, column: number, amount: number): void'),
  returns('l1/l1-recorder.ts', '  addTenant(tenant: number, column: number, amount: number): void'),
  returns('l1/l1-recorder.ts', '  addTotal(column: number, amount: number): void'),
  returns('l1/l1-recorder.ts', '  isSampled(words: Uint32Array, at: number): boolean', 'false'),
  returns('l1/l1-recorder.ts', '  chunkRetrieved(tenant: number, space: number, words: Uint32Array, at: number): void'),
  returns('l1/l1-recorder.ts', '  endBatch(): void'),
  { file: 'l1/l1-recorder.ts', from: '    this.#cells[this.#usage] = this.usageBytes\n', to: '' },
  {
    file: 'l1/l1-recorder.ts',
    from: '    this.#cells[this.#usageRatio] = this.usageBytes / this.#capacityBytes\n',
    to: '',
  },
  { file: 'l1/read-leases.ts', from: '    words[record + USE_MS] = recorder.stamp\n', to: '' },
  {
    file: 'l1/read-leases.ts',
    from: '    if (!isKnown) words[record + META] = words[record + META]! | USE_KNOWN\n',
    to: '',
  },
  { file: 'l1/read-leases.ts', from: '    words[record + TOUCH_MS] = recorder.stamp\n', to: '' },
  {
    file: 'l1/residency.ts',
    from: '    this.#ghostCapacity = options.ghostCapacityChunks\n',
    to: '    this.#ghostCapacity = 0\n',
  },
  returns('l0/block-lifecycle.ts', '  #isSampled({ hash, space }: RunTable, run: number): boolean', 'false'),
  returns('l0/block-lifecycle.ts', '  #isIdSampled(id: number): boolean', 'false'),
  returns('l0/block-lifecycle.ts', '  #count(tenant: number, column: number, amount: number): void'),
  // Threads record nothing: they run the source as it is.
  { file: 'core/worker-url.ts', from: "base.endsWith('.ts')", to: `base.endsWith('.ts${MARK}')` },
  returns('transfer/l0-l1-copier.ts', '  #record(direction: Direction, job: Job, busySeconds: number): void'),
]

/** The source of a file with its edits. Throws when one does not fit exactly once: the source has moved on. */
export function withoutRecording(file: string, source: string): string {
  let text = source
  for (const { from, to } of RECORDING_EDITS.filter((edit) => edit.file === file)) {
    const places = text.split(from).length - 1
    if (places !== 1) throw new Error(`${file} has ${places} places for an edit of the bench: ${from.trim()}`)
    text = text.replace(from, () => to)
  }
  return text
}

/**
 * Loads a module of `src/` in a build with recording switched off, beside the real one: every module below `src/` is
 * loaded a second time, edited. Both builds are compiled apart, so neither spoils what V8 learns of the other.
 *
 * @param file below `src/`.
 */
export async function importWithoutRecording<Module>(file: string): Promise<Module> {
  registerHooks({
    resolve(specifier, context, next) {
      const resolved = next(specifier, context)
      const isOurs = context.parentURL?.endsWith(MARK) === true && resolved.url.startsWith(pathToFileURL(SRC).href)
      return isOurs && !resolved.url.endsWith(MARK) ? { ...resolved, url: resolved.url + MARK } : resolved
    },
    load(url, context, next) {
      if (!url.endsWith(MARK)) return next(url, context)
      const path = fileURLToPath(url.slice(0, -MARK.length))
      const source = withoutRecording(path.slice(SRC.length + 1), readFileSync(path, 'utf8'))
      return { format: 'module-typescript', source, shortCircuit: true }
    },
  })
  return (await import(pathToFileURL(join(SRC, file)).href + MARK)) as Module
}
