import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { CACHE } from './python-environment.ts'

/**
 * One folder of a package of the npm registry, kept in the user's cache. Nothing of it is run.
 *
 * @throws Error when it cannot be had.
 */
export function npmPackageFolder(name: string, version: string, inside: string): string {
  const folder = join(CACHE, `${name.replace('/', '-')}-${version}`)
  if (existsSync(folder)) return join(folder, inside)
  mkdirSync(CACHE, { recursive: true })
  const draft = mkdtempSync(join(CACHE, 'npm-'))
  try {
    const pack = ['pack', '--silent', '--pack-destination', draft, `${name}@${version}`]
    const archive = execFileSync('npm', pack, { cwd: draft, encoding: 'utf8', stdio: 'pipe' })
      .trim()
      .split('\n')
      .at(-1)!
    execFileSync('tar', ['-xzf', archive, '--strip-components=1', `package/${inside}`], { cwd: draft, stdio: 'pipe' })
    rmSync(join(draft, archive))
    renameSync(draft, folder) // whole or not at all
  } catch (error) {
    rmSync(draft, { recursive: true, force: true })
    if (!existsSync(folder)) throw error
  }
  return join(folder, inside)
}
