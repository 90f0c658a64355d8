import { posix } from 'node:path'
import { importsOf, lineOf, scan } from '../support/source-scan.ts'
import type { TreeFile } from '../support/source-tree.ts'

const LINES_MAX = 400
const NAME_FORM = /^[a-z0-9]+(?:[-.][a-z0-9]+)*$/
const EXPORT = /^export\s+(?:abstract |async |declare )*(?:\w+)\*?\s+(\w+)/gm
const EMPTY_WORDS = ['util', 'utils', 'helper', 'helpers', 'common', 'base', 'impl', 'misc']

/** What may lie at the top of the repository. */
export const TOP_LEVEL: readonly string[] = [
  '.ci',
  '.editorconfig',
  '.git',
  '.gitattributes',
  '.gitignore',
  '.npmrc',
  '.dockerignore',
  'Dockerfile',
  'LICENSE',
  'README.md',
  'bench',
  'biome.json',
  'config',
  'package-lock.json',
  'package.json',
  'src',
  'test',
  'tsconfig.build.json',
  'tsconfig.json',
  'vitest.config.ts',
]

/** Text that may not stand in a file. Letters in brackets keep this table clear of its own rules. */
const FORBIDDEN: readonly {
  readonly what: string
  readonly form: RegExp
  /** Look in code only, not in comments and strings. */
  readonly inCode: boolean
  readonly applies: (path: string) => boolean
}[] = [
  { what: 'a left-over note', form: /\b(?:TO[D]O|FIX[M]E|XX[X])\b/g, inCode: false, applies: () => true },
  {
    what: 'a path of one machine',
    form: /(?<![\w.$}])\/(?:w[o]rk|t[m]p|r[o]ot|f[a]rm)\/[a-z]/g,
    inCode: false,
    applies: () => true,
  },
  {
    what: 'a skipped or focused test',
    form: /\b(?:it|test|describe|suite|bench)(?:\.\w+)*\.(?:skip|only|todo)\b/g,
    inCode: true,
    applies: (path) => path.startsWith('test/'),
  },
  {
    what: 'console output',
    form: /\bconsole\.\w+/g,
    inCode: true,
    applies: (path) => path.startsWith('src/') && !path.startsWith('src/cli/'),
  },
]

/** Every untidiness of files of src/, test/ and bench/, one line each. Empty when all is well. */
export function tidyViolations(files: readonly TreeFile[]): string[] {
  return files.flatMap((file) => [
    ...nameViolations(file.path),
    ...lengthViolations(file),
    ...forbiddenText(file),
    ...(file.path.startsWith('src/') ? docViolations(file) : []),
  ])
}

/** Forbidden text of any file of the tree, code or not. */
export function forbiddenText({ path, text }: TreeFile): string[] {
  const bare = path.endsWith('.ts') ? scan(text).bare : text
  return FORBIDDEN.filter(({ applies }) => applies(path)).flatMap(({ what, form, inCode }) =>
    [...(inCode ? bare : text).matchAll(form)].map(
      (match) => `${path}:${lineOf(text, match.index)} has ${what}: ${match[0]}`,
    ),
  )
}

/**
 * Tests that belong to nothing in src/. A unit test is named after a file or an export of the folder that it mirrors, or
 * imports from that folder, itself or by way of test/support. A contract or model test is named after a file, an
 * export or a folder.
 *
 * @param tests files of test/. @param sources files of src/.
 */
export function strayTests(tests: readonly TreeFile[], sources: readonly TreeFile[]): string[] {
  const everything = [...sources.flatMap(namesOf), ...sources.flatMap(({ path }) => posix.dirname(path).split('/'))]
  const support = new Map(tests.map((file) => [file.path, file]))
  const isStray = (test: TreeFile): boolean => {
    const [, kind = '', ...rest] = test.path.split('/')
    const name = posix.basename(test.path, '.test.ts')
    if (kind === 'contract' || kind === 'model') return !isNamedAfter(name, everything)
    if (kind !== 'unit') return false
    const mirrored = posix.join('src', ...rest.slice(0, -1))
    const siblings = sources.filter(({ path }) => posix.dirname(path) === mirrored)
    const targets = targetsOf(test).flatMap((target) => [target, ...targetsOf(support.get(target))])
    const imports = targets.some((target) => target.startsWith(`${mirrored}/`))
    return !isNamedAfter(name, siblings.flatMap(namesOf)) && !imports
  }
  return tests.filter((test) => test.path.endsWith('.test.ts') && isStray(test)).map(({ path }) => path)
}

function targetsOf(file: TreeFile | undefined): string[] {
  if (file === undefined) return []
  const relative = importsOf(scan(file.text)).filter(({ specifier }) => specifier.startsWith('.'))
  return relative.map(({ specifier }) => posix.join(posix.dirname(file.path), specifier))
}

/** Folders of src/ that its README does not name. */
export function unmappedFolders(folders: readonly string[], readme: string): string[] {
  return folders.filter((folder) => !readme.includes(`\`${folder}/\``))
}

function nameViolations(path: string): string[] {
  const parts = path.split('/').map((part) => part.replace(/(?:\.test)?\.ts$/, ''))
  const misnamed = parts.filter((part) => !NAME_FORM.test(part)).map((part) => `${path}: ${part} is not kebab-case`)
  const empty = parts.flatMap((part) => part.split(/[-.]/)).filter((word) => EMPTY_WORDS.includes(word))
  return [...misnamed, ...empty.map((word) => `${path}: ${word} says nothing`)]
}

function lengthViolations({ path, text }: TreeFile): string[] {
  const lines = text.trimEnd().split('\n').length
  return lines > LINES_MAX ? [`${path} has ${lines} lines, over ${LINES_MAX}`] : []
}

/** Tables whose rows are the documentation. */
const SELF_EXPLAINING = /^src\/(?:config\/[\w-]+-fields|metrics\/catalogue-[\w-]+)\.ts$/

/**
 * The main export is the one with the file's name; a file without one needs any documented export, and a file that
 * exports nothing any comment.
 */
function docViolations({ path, text }: TreeFile): string[] {
  if (/^(?:#!.*\n)?\s*\/\*\*/.test(text) || SELF_EXPLAINING.test(path)) return []
  const wanted = posix.basename(path, '.ts').replaceAll('-', '')
  const exported = [...text.matchAll(EXPORT)]
  const mains = exported.filter((match) => match[1]!.replaceAll('_', '').toLowerCase() === wanted)
  const isFine =
    exported.length === 0
      ? /^\s*(?:\/\/|\*)/m.test(text)
      : (mains.length > 0 ? mains : exported).some((match) => /\*\/\s*$/.test(text.slice(0, match.index)))
  return isFine ? [] : [`${path}: no docstring${mains.length === 0 ? '' : ` for ${mains[0]![1]}`}`]
}

/** What a file may be called by in kebab-case: its own name and those of its exports. */
function namesOf({ path, text }: TreeFile): string[] {
  const exported = [...text.matchAll(EXPORT)].map((match) => match[1]!.replace(/(?<=[a-z0-9])(?=[A-Z])/g, '-'))
  return [posix.basename(path, '.ts'), ...exported.map((name) => name.replaceAll('_', '-').toLowerCase())]
}

/** `slot-lru`; `slot-lru-growth` or `slot-lru.growth` for one aspect of it; `slot-lrus`; `slot` for several slot-... */
function isNamedAfter(name: string, candidates: readonly string[]): boolean {
  return candidates.some(
    (one) =>
      name === one ||
      name === `${one}s` ||
      name.startsWith(`${one}-`) ||
      name.startsWith(`${one}.`) ||
      one.startsWith(`${name}-`),
  )
}
