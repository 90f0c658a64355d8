import { chmodSync, existsSync, mkdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { lockFile } from '../../src/native/file-lock.ts'
import { type CommandResult, EngineHome, runCommand } from '../support/engine-process.ts'

let home: EngineHome

beforeEach(() => {
  home = new EngineHome()
})
afterEach(() => home.remove())

/** Runs `serve` with these flags and others that let it start. It must end by itself. */
function serve(...flags: string[]): Promise<CommandResult> {
  const given = new Set(flags.map((flag) => flag.split('=')[0]))
  const ports = { '--http-port': '0', '--mp-port': '0', '--prometheus-port': '0' }
  const fill = { '--data-dir': home.dataDir, ...ports, '--l1-size': '16MiB' }
  const rest = Object.entries(fill).filter(([flag]) => !given.has(flag))
  return runCommand(['serve', ...flags, ...rest.map(([flag, value]) => `${flag}=${value}`)])
}

/** One line on stderr that holds `text`, nothing on stdout, this exit code, and nothing left behind. */
function expectRefusal({ code, stdout, stderr }: CommandResult, exitCode: number, ...texts: string[]): void {
  expect(stderr).toMatch(/^kvtier: [^\n]+\n$/)
  for (const text of texts) expect(stderr).toContain(text)
  expect(stderr).not.toMatch(/\bat .+:\d+|internal error|undefined|\[object/)
  expect({ code, stdout }).toEqual({ code: exitCode, stdout: '' })
  expectNothingLeft()
}

function expectNothingLeft(): void {
  expect(existsSync(home.segmentPath)).toBe(false)
  expectNothingRuns()
}

/** What a planned stop leaves behind: L1, for the next start, and nothing of a running engine. */
function expectNothingRuns(): void {
  expect(existsSync(join(home.dataDir, 'addresses.json'))).toBe(false)
  if (!existsSync(home.dataDir)) return
  const lock = lockFile(join(home.dataDir, 'engine.lock'))
  expect(lock).not.toBe(null)
  lock?.release()
}

describe('serve refuses to start', () => {
  it('on the data directory of a running engine, which goes on', async () => {
    const engine = await home.start()
    const second = await serve()
    expect(second).toEqual({
      code: 1,
      stdout: '',
      stderr: `kvtier: another engine runs on the data directory ${home.dataDir}: give this one its own with --data-dir\n`,
    })
    expect((await fetch(`${engine.httpUrl}/healthz`)).status).toBe(200)
    expect(existsSync(home.segmentPath)).toBe(true)
    expect(JSON.parse(readFileSync(join(home.dataDir, 'addresses.json'), 'utf8'))).toEqual(engine.addresses)
    expect(await engine.stop()).toBe(0)
    expect(existsSync(home.segmentPath)).toBe(true)
    expectNothingRuns()
  })

  it('in a data directory below a file', async () => {
    const file = join(home.folder, 'file')
    writeFileSync(file, '')
    expectRefusal(await serve(`--data-dir=${file}/data`), 2, `${file}/data`, 'ENOTDIR', '--data-dir')
  })

  it('in a data directory that may not be written', async () => {
    // Modes do not bind root, but not even root makes a directory in /proc.
    const isRoot = process.getuid?.() === 0
    const parent = isRoot ? '/proc' : join(home.folder, 'sealed')
    if (!isRoot) {
      mkdirSync(parent)
      chmodSync(parent, 0o500)
    }
    expectRefusal(await serve(`--data-dir=${parent}/data`), 2, `${parent}/data`, 'cannot be written', '--data-dir')
  })

  it.each([
    ['10 TiB', () => 10 * 1024 ** 4],
    ['a little more than /dev/shm has left', () => freeSharedBytes() + 512 * 1024 ** 2],
  ])('with an L1 of %s', async (_size, bytes) => {
    const refused = await serve(`--l1-size=${bytes()}`)
    expectRefusal(refused, 2, 'does not fit into', 'MiB', 'lower --l1-size', 'docker --shm-size')
  })

  it('with an address that others can reach and no token', async () => {
    expectRefusal(await serve('--http-host=0.0.0.0'), 2, '--http-host', 'kvtier token create --scope admin')
  })

  it('on an address that is not of this machine', async () => {
    expectRefusal(await serve('--http-host=192.0.2.1'), 2, '--http-host', '192.0.2.1')
    expectRefusal(await serve('--prometheus-host=no.such.host.invalid'), 2, '--prometheus-host', 'invalid')
  })
})

describe('serve refuses a taken port', () => {
  let holder: Server
  let port: number

  beforeAll(async () => {
    holder = createServer()
    await new Promise<void>((resolve) => holder.listen(0, '127.0.0.1', resolve))
    port = (holder.address() as AddressInfo).port
  })
  afterAll(() => void holder.close())

  it.each(['--http-port', '--mp-port', '--prometheus-port'])('given by %s', async (flag) => {
    const refused = await serve(`${flag}=${port}`, '--prometheus-host=127.0.0.1')
    expectRefusal(refused, 1, `${flag} is ${port}, which is in use`, '0 for a free one')
  })

  it('for metrics on all addresses when one of them has it', async () => {
    expectRefusal(await serve(`--prometheus-port=${port}`), 1, `--prometheus-port is ${port}`)
  })

  it('and answers with one object under --json', async () => {
    const { code, stdout, stderr } = await serve(`--http-port=${port}`, '--json')
    expect({ code, lines: stderr.split('\n').length }).toEqual({ code: 1, lines: 2 })
    const { error } = JSON.parse(stdout)
    expect(error).toMatchObject({ code: 'PORT_TAKEN', detail: { field: '--http-port' } })
    expect(`kvtier: ${error.message}\n`).toBe(stderr)
    expectNothingLeft()
  })
})

describe('serve refuses a wrong command line', () => {
  it.each([
    ['an unknown flag', ['--l1-sise=1GiB'], ['--l1-sise', 'did you mean --l1-size?']],
    ['a bad value', ['--l1-size=many'], ['--l1-size is "many"', 'such as 512MiB']],
    ['a port out of range', ['--http-port=65536'], ['--http-port is "65536"', '0 to 65535']],
    ['a word that is no flag', ['now'], ['does not take "now"']],
    ['two options that contradict', ['--l1-low=0.9', '--l1-high=0.8'], ['--l1-low', '--l1-high is 0.8']],
    ['a port that speaks gRPC', ['--otlp-endpoint=http://127.0.0.1:4317'], ['--otlp-endpoint', ':4318']],
  ])('with %s', async (_what, flags, texts) => {
    expectRefusal(await serve(...flags), 2, ...texts)
    expect(existsSync(home.dataDir)).toBe(false)
  })

  it.each([
    ['an unknown key', 'l1:\n  sise: 1GiB\n', ['l1.sise', 'did you mean l1.size?']],
    ['a bad value', 'l1:\n  high: 2\n', ['l1.high is 2', 'from 0 to 1']],
    ['no YAML', 'l1: [\n', ['kvtier.yaml']],
  ])('with %s in the config file', async (_what, contents, texts) => {
    const file = join(home.folder, 'kvtier.yaml')
    writeFileSync(file, contents)
    expectRefusal(await serve(`--config=${file}`), 2, ...texts)
    expect(existsSync(home.dataDir)).toBe(false)
  })

  it('with a config file that is not there', async () => {
    expectRefusal(await serve(`--config=${home.folder}/none.yaml`), 2, '--config', 'none.yaml', 'ENOENT')
  })
})

it('serve prints one object on stdout under --json, and logs on stderr', async () => {
  const engine = await home.start({ flags: ['--json', '--observability-enabled=false'] })
  expect(await engine.stop()).toBe(0)
  expect(JSON.parse(engine.stdout)).toMatchObject({ ...engine.addresses, simulated: expect.any(Array) })
  expect(engine.stdout.trim().split('\n')).toHaveLength(1)
  const [log, stopping] = [engine.stderr.trimEnd().split('\n'), 'kvtier: SIGTERM, stopping']
  const messages = log.map((line) => (line === stopping ? line : JSON.parse(line).msg))
  const native = expect.stringContaining('native code')
  expect(messages).toEqual(['adapter state', native, stopping, 'adapter state'])
  expectNothingRuns()
})

function freeSharedBytes(): number {
  const { bavail, bsize } = statfsSync('/dev/shm')
  return bavail * bsize
}
