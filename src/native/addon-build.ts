import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, realpathSync, renameSync, rmSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { ADDON_FLAGS, addonFiles, addonFolder, addonKey, addonName, addonSources } from './addon-files.ts'

const run = promisify(execFile)
const TIMEOUT_MS = 300_000

/** How a binary is made. */
export interface AddonBuildOptions {
  readonly root: string
  /** Programs to try, in order. */
  readonly compilers: readonly string[]
  /** Added to the flags: `-fsanitize=...` in tests. Needs a folder of its own. */
  readonly flags?: readonly string[]
  /** Where the binary goes. Binaries of other sources are removed from it. */
  readonly folder?: string
  /** What the compiler is started with. */
  readonly env: NodeJS.ProcessEnv
}

/** What came of it: a binary, made now or before, or why there is none. */
export type AddonBuilt = { readonly path: string; readonly isNew: boolean } | { readonly reason: string }

/**
 * Compiles every `.cc` below `src/native/addon` and links them into one binary, beside others of the same sources. It
 * appears under its name when it is complete. Never throws.
 */
export async function buildAddon(options: AddonBuildOptions): Promise<AddonBuilt> {
  const { root, folder = addonFolder(root) } = options
  try {
    const headers = nodeHeaders()
    if (headers === undefined) return { reason: `${process.execPath} has no header node_api.h beside it` }
    const compiler = await findCompiler(options)
    if (compiler === undefined) return { reason: `no C++ compiler (${options.compilers.join(', ')})` }
    const key = addonKey(root)
    const path = join(folder, addonName(key, `${compiler.version} ${(options.flags ?? []).join(' ')}`))
    if (existsSync(path)) return { path, isNew: false }
    mkdirSync(folder, { recursive: true })
    const work = mkdtempSync(join(folder, 'work-'))
    try {
      const made = await compile(options, compiler.program, headers, work)
      for (const stale of readdirSync(folder)) {
        if (stale.endsWith('.node') && !stale.startsWith(`kvtier-${key}-`)) rmSync(join(folder, stale))
      }
      renameSync(made, path)
    } finally {
      rmSync(work, { recursive: true, force: true })
    }
    return { path, isNew: true }
  } catch (error) {
    return { reason: firstError(error, root) }
  }
}

/** The folder of `node_api.h` that came with this Node: `bin/node` beside `include/node`. */
function nodeHeaders(): string | undefined {
  const folder = join(dirname(realpathSync(process.execPath)), '..', 'include', 'node')
  return existsSync(join(folder, 'node_api.h')) ? folder : undefined
}

async function findCompiler({ compilers, env }: AddonBuildOptions) {
  for (const program of compilers) {
    try {
      const { stdout } = await run(program, ['--version'], { env, timeout: TIMEOUT_MS })
      return { program, version: stdout.split('\n')[0]! }
    } catch {
      // not there: the next one
    }
  }
  return undefined
}

/** @returns path of the binary, in the work folder. */
async function compile(options: AddonBuildOptions, program: string, headers: string, work: string): Promise<string> {
  const { root, env, flags = [] } = options
  const sources = addonFiles(root).filter((name) => name.endsWith('.cc'))
  const objects = sources.map((name) => join(work, `${name.replaceAll('/', '-')}.o`))
  const common = [...ADDON_FLAGS, ...flags]
  let next = 0
  const worker = async () => {
    while (next < sources.length) {
      const at = next
      next += 1
      const source = join(addonSources(root), sources[at]!)
      await run(program, [...common, '-I', headers, '-c', source, '-o', objects[at]!], { env, timeout: TIMEOUT_MS })
    }
  }
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), 4) }, worker))
  const binary = join(work, 'addon.node')
  await run(program, [...common, '-shared', ...objects, '-o', binary, '-ldl'], { env, timeout: TIMEOUT_MS })
  return binary
}

/** The first line that names an error, of a compiler's or of Node's own. */
function firstError(error: unknown, root: string): string {
  const text = (error as { stderr?: string }).stderr || String(error)
  const lines = text.replaceAll(`${addonSources(root)}/`, '').split('\n')
  return lines.find((line) => line.includes('error')) ?? lines[0]!
}
