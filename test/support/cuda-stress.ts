import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { addonSources } from '../../src/native/addon-files.ts'
import { REPOSITORY } from './source-tree.ts'
import { buildLibrary } from './stand-in-driver.ts'

const run = promisify(execFile)
const SOURCE = join(REPOSITORY, 'test/support/cuda-stress/stress.cc')
/** What of the addon has to do with Node. */
const ofNode = (name: string) => name.startsWith('binding') || name === 'probe.cc'

/**
 * Runs the stress program of the CUDA device, without Node, on the stand-in driver: cycles of open, transfers, close
 * with failures of the driver's calls.
 *
 * @param flags of the compiler, for the program and the driver alike. @returns what it printed. @throws when it failed
 */
export async function stressCuda(flags: readonly string[], cycles: number, seed: number): Promise<string> {
  const library = await buildLibrary(flags)
  const folder = mkdtempSync(join(tmpdir(), 'kvtier-stress-'))
  try {
    const own = join(addonSources(REPOSITORY), 'cuda')
    const names = readdirSync(own).filter((name) => name.endsWith('.cc') && !ofNode(name))
    const sources = [SOURCE, ...names.map((name) => join(own, name))]
    const program = join(folder, 'stress')
    await run('g++', ['-std=c++17', '-O1', '-g', '-pthread', '-I', own, ...flags, ...sources, '-o', program, '-ldl'])
    const { stdout } = await run(program, [library, String(cycles), String(seed)], { timeout: 580_000 })
    return stdout
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Why a sanitizer cannot be used here; null when it can. */
export async function missingSanitizer(flag: string): Promise<string | null> {
  const folder = mkdtempSync(join(tmpdir(), 'kvtier-sanitizer-'))
  try {
    const program = join(folder, 'program')
    const compile = run('sh', ['-c', `echo 'int main() { return 0; }' | g++ -x c++ - ${flag} -o ${program}`])
    await compile
    await run(program)
    return null
  } catch (error) {
    return `${flag}: ${String((error as { stderr?: string }).stderr || error).split('\n')[0]}`
  } finally {
    rmSync(folder, { recursive: true })
  }
}
