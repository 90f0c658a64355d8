import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CACHE } from '../compat/python-environment.ts'
import { EngineProcess, removeSharedMemory, runCommand } from '../support/engine-process.ts'
import { runPeer } from '../support/python-peer.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { standInDriver } from '../support/stand-in-driver.ts'

/** A Python that has torch: the machine's, or one that `test:compat` has made. Nothing is installed for this. */
function torchPython(): string | undefined {
  const folders = existsSync(CACHE) ? readdirSync(CACHE).map((name) => join(CACHE, name)) : []
  const made = folders.map((folder) => join(folder, 'bin/python')).filter((path) => existsSync(path))
  const find = 'import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'
  return ['python3', ...made].find((python) => {
    try {
      execFileSync(python, ['-c', find], { stdio: 'ignore' })
      return true
    } catch {
      return false
    }
  })
}

const driver = await standInDriver()
const python = torchPython()
const reason = typeof driver === 'string' ? driver : python === undefined ? 'no Python here has torch' : null

describe('a model whose prompt another process has prefilled', skipUnless(reason === null, reason ?? ''), () => {
  let folder: string
  let engine: EngineProcess
  let argv: string[]

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'kvtier-demo-'))
    const dataDir = join(folder, 'data')
    const library = typeof driver === 'string' ? '' : driver.library
    const flags = ['--l0-device', 'cuda', '--l0-size', '16MiB', '--cuda-library', library]
    engine = await EngineProcess.start({ dataDir, flags })
    const made = await runCommand(['token', 'create', '--scope', 'admin', '--data-dir', dataDir, '--json'], 120_000)
    const { token } = JSON.parse(made.stdout)
    argv = ['--engine', engine.addresses.http!, '--token', token, '--library', library, '--tokens', '512']
  }, 300_000)
  afterAll(async () => {
    await engine.stop()
    removeSharedMemory(join(folder, 'data'))
    rmSync(folder, { recursive: true })
  })

  it.each(['attached', 'managed'])('gives the same logits, bit for bit (%s)', { timeout: 300_000 }, async (mode) => {
    const [result] = await runPeer('demo.py', [...argv, '--mode', mode], python)
    expect(result).toMatchObject({
      device: 'simulated device, torch on the CPU',
      prefill: { cachedTokens: 0 },
      loaded: { cachedTokens: 512 },
      sameLogits: true,
      largestDifference: 0,
      fine: true,
    })
  })
})
