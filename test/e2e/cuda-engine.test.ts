import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { EngineProcess, removeSharedMemory, runCommand } from '../support/engine-process.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { standInDriver } from '../support/stand-in-driver.ts'

const driver = await standInDriver()
const library = typeof driver === 'string' ? '' : driver.library

describe('an engine on the stand-in CUDA driver', skipUnless(library !== '', String(driver)), () => {
  let folder: string
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'kvtier-cuda-'))
  })
  afterEach(() => {
    removeSharedMemory(join(folder, 'data'))
    rmSync(folder, { recursive: true })
  })

  const start = (env: Record<string, string>, ...flags: string[]) =>
    EngineProcess.start({
      dataDir: join(folder, 'data'),
      flags: ['--l0-size', '16MiB', '--cuda-library', library, ...flags],
      env,
    })
  const json = async (engine: EngineProcess, path: string) => {
    const answer = await fetch(`http://${engine.addresses.http}${path}`)
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
  }

  it('takes the GPU, and says which copy methods it has, what is pinned and what is not real', async () => {
    const engine = await start({}, '--l0-device', 'auto')
    try {
      const { body } = await json(engine, '/status')
      expect(body).toMatchObject({
        simulated: [expect.stringContaining('stand-in')],
        l0: {
          kind: 'managed',
          device: { kind: 'cuda', state: 'open', poolBytes: 16 * 1024 ** 2 },
        },
      })
      const { device } = body.l0 as { device: { pinnedBytes: number; methods: { available: boolean }[] } }
      expect(device.pinnedBytes).toBeGreaterThanOrEqual(64 * 1024 ** 2)
      expect(device.methods.map(({ available }) => available)).toEqual([true, true, true])
    } finally {
      expect(await engine.stop()).toBe(0)
    }
  })

  it.each([
    ['no room for the pool', 'fail cuMemAlloc 1 2', 'lower --l0-size'],
    ['an arena that cannot be registered', 'fail cuMemHostRegister 1 2', 'the host memory was not registered'],
    ['a context that cannot be had', 'fail cuDevicePrimaryCtxRetain 1 46', 'no context'],
  ])('goes on without L0 after %s, and simulates nothing', async (_, failure, reason) => {
    const engine = await start({ STAND_IN_CUDA: failure }, '--l0-device', 'cuda')
    try {
      const { body } = await json(engine, '/status')
      expect(body).toMatchObject({ simulated: [], l0: { kind: 'none', missing: expect.stringContaining(reason) } })
      expect((await json(engine, '/readyz')).status).toBe(200)
      const selftest = await runCommand(['selftest', '--data-dir', join(folder, 'data')])
      expect(selftest, selftest.stderr).toMatchObject({ code: 0 })
    } finally {
      expect(await engine.stop()).toBe(0)
    }
  })

  it('keeps serving L1 and L2 on a device that is lost, and is not ready', async () => {
    // The 1st synchronisation comes with the table of methods.
    const engine = await start({ STAND_IN_CUDA: 'fail cuEventSynchronize 5 719' }, '--l0-device', 'cuda')
    try {
      expect(await json(engine, '/readyz')).toMatchObject({ status: 503 })
      expect((await json(engine, '/status')).body).toMatchObject({ l0: { device: { state: 'lost', lostWith: 719 } } })
      const selftest = await runCommand(['selftest', '--data-dir', join(folder, 'data')])
      expect(selftest, selftest.stderr).toMatchObject({ code: 0 })
    } finally {
      expect(await engine.stop()).toBe(0)
    }
  })

  it('does not start when a GPU is asked for and there is none', async () => {
    const flags = ['--l1-size', '16MiB', '--l0-device', 'cuda', '--cuda-library', '/nowhere.so']
    const argv = ['serve', '--data-dir', join(folder, 'data'), ...flags]
    const { code, stderr } = await runCommand(argv)
    expect(code).toBe(1)
    expect(stderr).toContain('there is no GPU to use')
  })

  it('is probed: devices, methods, the measured table, pinned bytes', async () => {
    const { code, stdout } = await runCommand(['probe', '--json', '--cuda-library', library])
    expect(code).toBe(0)
    const probe = JSON.parse(stdout)
    expect(probe).toMatchObject({
      native: { addon: { available: true } },
      cuda: { available: true, isStandIn: true, devices: [{ ordinal: 0, computeCapability: '9.0' }] },
      simulated: [expect.stringContaining('stand-in')],
    })
    expect(probe.measured.pinnedBytes).toBeGreaterThan(0)
    expect(probe.measured.table.length).toBeGreaterThan(0)
    const { stdout: text } = await runCommand(['probe', '--cuda-library', library])
    expect(text).toMatch(/device 0 +Stand-in GPU/)
    expect(text).toMatch(/store +4KiB/)
  })
})

it('a probe without a GPU says that it is simulated, and why', async () => {
  const { code, stdout } = await runCommand(['probe', '--cuda-library', '/nowhere.so'])
  expect(code).toBe(0)
  expect(stdout).toMatch(/cuda +no: /)
  expect(stdout).toContain('simulated  the GPU')
})
