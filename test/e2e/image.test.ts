import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from '../support/free-port.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { until } from '../support/until.ts'

const BASE = 'localhost/kvtier-test-base'
const IMAGE = 'localhost/kvtier-test-image'
const BUILD_MS = 600_000
const USER = 10_001

function run(program: string, ...argv: string[]): string {
  const { status, stdout, stderr, error } = spawnSync(program, argv, { cwd: REPOSITORY, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${argv[0]}: ${stderr || stdout || error}`)
  return stdout.trim()
}

function buildah(...argv: string[]): string {
  return run('buildah', '--storage-driver', 'vfs', ...argv)
}

function canBuild(): boolean {
  const hasPrograms = ['buildah', 'busybox'].every((name) => spawnSync(name, ['--help']).error === undefined)
  return process.getuid?.() === 0 && hasPrograms
}

describe('the image', skipUnless(canBuild(), 'needs root, buildah and busybox-static'), () => {
  let container: string
  let engine: ChildProcess | undefined

  beforeAll(() => {
    run('sh', 'test/support/stand-in-base.sh', process.execPath, BASE)
    buildah('build', '--isolation', 'chroot', '--format', 'docker', '--build-arg', `BASE=${BASE}`, '-t', IMAGE, '.')
    container = buildah('from', IMAGE)
  }, BUILD_MS)
  afterAll(() => {
    engine?.kill('SIGKILL')
    if (container !== undefined) buildah('rm', container)
    for (const image of [IMAGE, BASE]) buildah('rmi', image)
  }, BUILD_MS)

  it('holds what runs and nothing of the build', () => {
    const root = buildah('mount', container)
    const packages = run('ls', join(root, 'app/node_modules')).split('\n')
    expect(packages).toContain('fastify')
    expect(packages.filter((name) => /vitest|typescript|biome|rolldown|node-linux/.test(name))).toEqual([])
    expect(run('ls', join(root, 'app')).split('\n').toSorted()).toEqual([
      'LICENSE',
      'dist',
      'node_modules',
      'package.json',
    ])
    buildah('umount', container)
  })

  it('runs as a user of its own, answers its health check, and stops in order on SIGTERM', async () => {
    const port = await freePort()
    const flags = ['--http-port', `${port}`, '--mp-port', '0', '--prometheus-port', '0', '--l1-size', '64MiB']
    const argv = [
      '--storage-driver',
      'vfs',
      'run',
      '--isolation',
      'chroot',
      container,
      '--',
      'node',
      '/app/dist/cli/main.js',
    ]
    engine = spawn('buildah', [...argv, 'serve', ...flags, '--json'])
    let printed = ''
    engine.stdout!.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
    const closed = once(engine, 'close')
    const { pid } = await until('the engine listens', () => (printed.includes('\n') ? JSON.parse(printed) : undefined))
    expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
    const owner = /^Uid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]
    expect(Number(owner)).toBe(USER)
    const { Docker } = JSON.parse(buildah('inspect', IMAGE))
    const check = (Docker.config.Healthcheck.Test as string[]).slice(1).map((word) => word.replace('8080', `${port}`))
    buildah('run', '--isolation', 'chroot', container, '--', ...check)
    process.kill(pid, 'SIGTERM')
    expect((await closed)[0]).toBe(0)
  })
})
