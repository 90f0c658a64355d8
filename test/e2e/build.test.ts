import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { EngineProcess, removeSharedMemory } from '../support/engine-process.ts'
import { listFiles, REPOSITORY } from '../support/source-tree.ts'

function run(file: string, ...args: string[]): string {
  return execFileSync(file, args, { cwd: REPOSITORY, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
}

describe('npm run build', () => {
  const main = 'dist/cli/main.js'

  beforeAll(() => {
    run('npm', 'run', '--silent', 'build')
  })

  it('makes a program that runs on its own', () => {
    const { version } = JSON.parse(readFileSync(join(REPOSITORY, 'package.json'), 'utf8'))
    expect(run(process.execPath, main, '--version')).toBe(`kvtier ${version}\n`)
    expect(JSON.parse(run(process.execPath, main, 'print', 'errors', '--json'))).not.toEqual([])
    expect(readFileSync(join(REPOSITORY, main), 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/)
  })

  it('makes an engine that serves, workers and all, and stops in order', async () => {
    const dataDir = mkdtempSync(join(tmpdir(), 'kvtier-build-'))
    const engine = await EngineProcess.start({ dataDir, main })
    try {
      for (const path of ['healthz', 'readyz', 'status', '', 'dashboard/main.js', 'dashboard/uplot.js']) {
        const { status } = await fetch(`http://${engine.addresses.http}/${path}`)
        expect([path, status]).toEqual([path, 200])
      }
    } finally {
      expect(await engine.stop()).toBe(0)
      removeSharedMemory(dataDir)
      rmSync(dataDir, { recursive: true })
    }
  })

  it('builds every source file, and the entry of every worker is there', () => {
    const built = listFiles('src')
      .filter((path) => path.endsWith('.ts'))
      .map((path) => path.replace(/^src/, 'dist').replace(/\.ts$/, '.js'))
    expect(built.filter((path) => !existsSync(join(REPOSITORY, path)))).toEqual([])
  })

  it('packs the program, the examples and the licence, and neither sources nor tests', () => {
    const [{ files }] = JSON.parse(run('npm', 'pack', '--dry-run', '--json', '--ignore-scripts')) as [
      { files: { path: string }[] },
    ]
    const paths = files.map(({ path }) => path)
    expect(paths).toEqual(expect.arrayContaining([main, 'package.json', 'README.md', 'LICENSE']))
    expect(paths.filter((path) => /^(?:src|test|bench|\.ci)\//.test(path))).toEqual([])
  })
})
