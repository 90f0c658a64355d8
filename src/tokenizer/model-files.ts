import { type Dirent, existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
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

/**
 * Every model below a directory: `<vendor>/<model_name>/tokenizer.json`, or the layout of the hub's cache,
 * `models--<vendor>--<model_name>/snapshots/<revision>/`.
 *
 * @param onBroken told of a model whose files cannot be read; it is left out.
 * @throws CacheError CONFIG_INVALID when the directory cannot be read.
 */
export async function findModels(
  directory: string,
  onBroken: (model: string, error: unknown) => void,
): Promise<ModelFiles[]> {
  const folders = await foldersOf(directory)
  const found: ModelFiles[] = []
  for (const { model, path } of folders) {
    try {
      found.push(await readModel(model, path))
    } catch (error) {
      onBroken(model, error)
    }
  }
  return found
}

/** The files of one model. @throws whatever reading throws. */
export async function readModel(model: string, folder: string): Promise<ModelFiles> {
  const tokenizerFile = join(folder, 'tokenizer.json')
  const configFile = join(folder, 'tokenizer_config.json')
  const facts = await stat(tokenizerFile)
  if (facts.size > TOKENIZER_BYTES_MAX) throw new RangeError(`${tokenizerFile} is over ${TOKENIZER_BYTES_MAX} bytes`)
  const tokenizerConfig = JSON.parse(await readSmall(configFile))
  const configJson = await readSmallIfAny(join(folder, 'config.json'))
  const template = await readSmallIfAny(join(folder, 'chat_template.jinja'))
  const config = configJson === null ? null : JSON.parse(configJson)
  const { mtimeMs: configMs } = await stat(configFile)
  return {
    model,
    tokenizerFile,
    configFile,
    stamp: `${tokenizerFile} ${facts.size} ${facts.mtimeMs} ${configMs}`,
    maxModelLen: maxModelLen(config, tokenizerConfig),
    templates: template === null ? templatesOf(tokenizerConfig.chat_template) : { default: template },
  }
}

async function foldersOf(directory: string): Promise<{ model: string; path: string }[]> {
  const folders: { model: string; path: string }[] = []
  for (const vendor of await entriesOf(directory)) {
    const path = join(directory, vendor.name)
    const cached = /^models--([^/]+?)--([^/]+)$/.exec(vendor.name)
    if (cached !== null) {
      const snapshot = await snapshotOf(path)
      if (snapshot !== null) folders.push({ model: `${cached[1]}/${cached[2]}`, path: snapshot })
      continue
    }
    if (vendor.name.startsWith('.') || vendor.isFile()) continue
    for (const { name } of await entriesOf(path).catch(() => [])) {
      const isModel = existsSync(join(path, name, 'tokenizer.json'))
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
async function snapshotOf(folder: string): Promise<string | null> {
  const main = await readSmallIfAny(join(folder, 'refs', 'main'))
  const named = (await entriesOf(join(folder, 'snapshots')).catch(() => [])).map(({ name }) => name)
  const revision = main?.trim() ?? (named.length === 1 ? named[0] : undefined)
  if (revision === undefined || !named.includes(revision)) return null
  const path = join(folder, 'snapshots', revision)
  return existsSync(join(path, 'tokenizer.json')) ? path : null
}

async function readSmall(path: string): Promise<string> {
  const { size } = await stat(path)
  if (size > SMALL_BYTES_MAX) throw new RangeError(`${path} is over ${SMALL_BYTES_MAX} bytes`)
  return await readFile(path, 'utf8')
}

async function readSmallIfAny(path: string): Promise<string | null> {
  return existsSync(path) ? await readSmall(path) : null
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
