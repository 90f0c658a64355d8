import { type Dirent, lstatSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { CacheError } from '../core/errors.ts'
import { maxModelLen } from './max-model-len.ts'

/** Where the tokenizer of a model lies, and what its small files say. Can be structured-cloned. */
export interface ModelFiles {
  /** `<vendor>/<model_name>` */
  readonly model: string
  /** Path of tokenizer.json. */
  readonly tokenizerFile: string
  /** Path of tokenizer_config.json. */
  readonly configFile: string
  /** Changes when a file does. */
  readonly stamp: string
  readonly maxModelLen: number | null
  readonly templates: ChatTemplates
}

/** Chat templates by name; `default` is the one for chats without tools. */
export type ChatTemplates = Readonly<Record<string, string>>

/** Bytes of a tokenizer.json at most, and of the other files. */
const TOKENIZER_BYTES_MAX = 256 * 1024 * 1024
const SMALL_BYTES_MAX = 16 * 1024 * 1024
/** Models of one directory at most. */
const MODELS_MAX = 10_000

/** A model of a directory: its files, or what is wrong with them. */
export interface FoundModel {
  readonly model: string
  readonly files: ModelFiles | CacheError
}

/**
 * Every model below a directory: `<vendor>/<model_name>/tokenizer.json`, or the layout of the hub's cache,
 * `models--<vendor>--<model_name>/snapshots/<revision>/`. A model that cannot be read is found with the reason.
 *
 * @throws CacheError CONFIG_INVALID when the directory cannot be read.
 */
export async function findModels(directory: string): Promise<FoundModel[]> {
  const found: FoundModel[] = []
  for (const { model, path } of await foldersOf(directory)) {
    try {
      found.push({ model, files: path instanceof CacheError ? path : await readModel(model, path) })
    } catch (error) {
      found.push({ model, files: error as CacheError })
    }
  }
  return found
}

/** The files of one model. @throws CacheError TOKENIZER_BROKEN that names the file and the fix. */
export async function readModel(model: string, folder: string): Promise<ModelFiles> {
  const tokenizerFile = join(folder, 'tokenizer.json')
  const configFile = join(folder, 'tokenizer_config.json')
  const stamp = await stampOf(tokenizerFile) // before the files are read, so that a later change shows
  await checkFile(model, tokenizerFile, TOKENIZER_BYTES_MAX)
  const tokenizerConfig = parsed(model, configFile, await readSmall(model, configFile))
  const modelFile = join(folder, 'config.json')
  const modelJson = await readSmallIfAny(model, modelFile)
  const template = await readSmallIfAny(model, join(folder, 'chat_template.jinja'))
  return {
    model,
    tokenizerFile,
    configFile,
    stamp,
    maxModelLen: maxModelLen(modelJson === null ? null : parsed(model, modelFile, modelJson), tokenizerConfig),
    templates: template === null ? templatesOf(tokenizerConfig.chat_template) : { default: template },
  }
}

/** What changes when a file of a model does: names, sizes and times of what the files are, links followed. */
export async function stampOf(tokenizerFile: string): Promise<string> {
  const folder = dirname(tokenizerFile)
  const names = ['tokenizer.json', 'tokenizer_config.json', 'config.json', 'chat_template.jinja']
  const facts = await Promise.all(names.map((name) => stat(join(folder, name)).catch(() => null)))
  return [tokenizerFile, ...facts.map((one) => (one === null ? '-' : `${one.ino}.${one.size}.${one.mtimeMs}`))].join(
    ' ',
  )
}

interface Folder {
  readonly model: string
  /** Or why there is none. */
  readonly path: string | CacheError
}

async function foldersOf(directory: string): Promise<Folder[]> {
  const folders: Folder[] = []
  for (const vendor of await entriesOf(directory)) {
    const path = join(directory, vendor.name)
    const cached = /^models--([^/]+?)--([^/]+)$/.exec(vendor.name)
    if (cached !== null) {
      const model = `${cached[1]}/${cached[2]}`
      const snapshot = await snapshotOf(model, path)
      if (snapshot !== null) folders.push({ model, path: snapshot })
      continue
    }
    if (vendor.name.startsWith('.') || vendor.isFile()) continue
    for (const { name } of await entriesOf(path).catch(() => [])) {
      const isModel = isThere(join(path, name, 'tokenizer.json'))
      if (isModel) folders.push({ model: `${vendor.name}/${name}`, path: join(path, name) })
    }
    if (folders.length > MODELS_MAX) break
  }
  return folders.slice(0, MODELS_MAX)
}

async function entriesOf(directory: string): Promise<Dirent[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true })
    return entries.sort((left, right) => (left.name < right.name ? -1 : 1))
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable'
    throw new CacheError('CONFIG_INVALID', `--tokenizer-dir: ${directory} cannot be read (${reason})`, {
      field: '--tokenizer-dir',
    })
  }
}

/** The snapshot that `refs/main` names, else the only one; null when there is none with a tokenizer. */
async function snapshotOf(model: string, folder: string): Promise<string | CacheError | null> {
  const ref = join(folder, 'refs', 'main')
  const snapshots = join(folder, 'snapshots')
  const named = (await entriesOf(snapshots).catch(() => [])).map(({ name }) => name)
  const withTokenizer = named.filter((name) => isThere(join(snapshots, name, 'tokenizer.json')))
  if (withTokenizer.length === 0) return null
  let main: string | null = null
  try {
    main = await readSmallIfAny(model, ref)
  } catch (error) {
    return error as CacheError
  }
  const revision = main?.trim() ?? (withTokenizer.length === 1 ? withTokenizer[0]! : '')
  // A revision is one of the folders' names, or none: what the file says is never made part of a path.
  if (withTokenizer.includes(revision)) return join(snapshots, revision)
  const what = main === null ? 'is missing' : 'names no snapshot with a tokenizer'
  return broken(model, ref, `${what}, and there are ${named.length}: write the name of a folder of snapshots into it`)
}

/** Whether there is something of this name, be it a link that leads nowhere. */
function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined
  } catch {
    return false // below a file, or a link in a circle
  }
}

/** @throws CacheError TOKENIZER_BROKEN unless it is a file that is not too large. */
async function checkFile(model: string, path: string, bytesMax: number): Promise<void> {
  const facts = await stat(path).catch((error: NodeJS.ErrnoException) => {
    const missing = 'is missing: copy it from where the model was published'
    const loop = 'is a link that leads round in a circle: replace it by the file'
    const known: Readonly<Record<string, string>> = { ENOENT: missing, ELOOP: loop }
    throw broken(model, path, known[error.code ?? ''] ?? `cannot be read (${error.code}): check its permissions`)
  })
  if (!facts.isFile()) throw broken(model, path, 'is no file: replace it by one')
  if (facts.size > bytesMax) {
    throw broken(model, path, `has ${facts.size} bytes, more than ${bytesMax}: it is hardly what it should be`)
  }
}

async function readSmall(model: string, path: string): Promise<string> {
  await checkFile(model, path, SMALL_BYTES_MAX)
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    throw broken(model, path, `cannot be read (${(error as NodeJS.ErrnoException).code}): check its permissions`)
  }
}

async function readSmallIfAny(model: string, path: string): Promise<string | null> {
  return isThere(path) ? await readSmall(model, path) : null
}

function parsed(model: string, path: string, text: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw broken(model, path, 'is not valid JSON: it may be cut short; copy it again')
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw broken(model, path, 'is not a JSON object: copy it again')
}

function broken(model: string, path: string, what: string): CacheError {
  return new CacheError('TOKENIZER_BROKEN', `the tokenizer of ${model}: ${path} ${what}`, { file: path })
}

/** `chat_template` of tokenizer_config.json: one text, or a list of named ones. */
function templatesOf(raw: unknown): ChatTemplates {
  if (typeof raw === 'string') return { default: raw }
  const templates: Record<string, string> = Object.create(null)
  if (!Array.isArray(raw)) return templates
  for (const one of raw) {
    if (typeof one?.name === 'string' && typeof one?.template === 'string') templates[one.name] = one.template
  }
  return templates
}
