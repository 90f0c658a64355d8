import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { EngineProcess, removeSharedMemory, runCommand } from '../support/engine-process.ts'
import { HoldingPeer, missingPython, runPeer } from '../support/python-peer.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { standInDriver } from '../support/stand-in-driver.ts'
import { until } from '../support/until.ts'

const driver = await standInDriver()
const library = typeof driver === 'string' ? '' : driver.library
const missing = typeof driver === 'string' ? driver : missingPython()
if (missing !== null && process.env.CI === 'true') throw new Error(missing)

const CHUNK_TOKENS = 256
const MODEL = 'acme/managed'

interface Status {
  readonly borrowers: readonly { id: string; pid: number | null; holds: number; isLate: boolean }[]
  readonly attachedPools: readonly object[]
  readonly l0: { capacityBlocks: number; freeBlocks: number; cachedBlocks: number; device: { importedPools: number } }
}

// Each starts an engine or two, and Python.
const LIMIT = { timeout: 300_000, ...skipUnless(missing === null, missing ?? '') }

describe('inference processes in Python on the stand-in driver', LIMIT, () => {
  let folder: string
  let engine: EngineProcess
  let token: string

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'kvtier-managed-'))
  })
  afterEach(async () => {
    expect(await engine.stop()).toBe(0)
    removeSharedMemory(join(folder, 'data'))
    rmSync(folder, { recursive: true })
  })

  async function start(l0Size: string, l1Size = '64MiB', httpPort = 0): Promise<void> {
    const dataDir = join(folder, 'data')
    const flags = ['--l0-device', 'cuda', '--l0-size', l0Size, '--cuda-library', library]
    engine = await EngineProcess.start({ dataDir, l1Size, httpPort, flags })
    if (httpPort !== 0) return
    const { stdout } = await runCommand(
      ['token', 'create', '--scope', 'admin', '--data-dir', dataDir, '--json'],
      120_000,
    )
    token = JSON.parse(stdout).token
  }

  const argv = () => ['--engine', engine.addresses.http!, '--token', token, '--library', library]
  const holding = () => HoldingPeer.start([...argv(), '--model', MODEL])

  async function status(): Promise<Status> {
    const answer = await fetch(`http://${engine.addresses.http}/status`)
    return (await answer.json()) as Status
  }

  async function ask(method: string, path: string, bearer = token): Promise<number> {
    const headers = { authorization: `Bearer ${bearer}` }
    return (await fetch(`http://${engine.addresses.http}${path}`, { method, headers })).status
  }

  it.each(['attached', 'managed'])('share blocks of the shapes of real models, %s: every byte', async (mode) => {
    await start(mode === 'managed' ? '80MiB' : '1MiB', '128MiB')
    // In managed mode the first model cuts the pool into its blocks: one model an engine.
    const models = mode === 'managed' ? ['--models', 'llama-3.1-8b'] : []
    const lines = await runPeer('bytes.py', [...argv(), '--modes', mode, ...models])
    expect(lines[0]).toMatchObject({ simulated: true })
    expect(lines.slice(1).map(({ model, fine }) => [model, fine])).toEqual(
      (mode === 'managed' ? ['llama-3.1-8b'] : ['llama-3.1-8b', 'deepseek-mla']).map((model) => [model, true]),
    )
    const after = await status()
    expect([after.borrowers, after.attachedPools]).toEqual([[], []])
  })

  it('share blocks of latent vectors (MLA), managed: every byte', async () => {
    await start('40MiB')
    const lines = await runPeer('bytes.py', [...argv(), '--modes', 'managed', '--models', 'deepseek-mla'])
    expect(lines[1]).toMatchObject({ fine: true, watched: true, tensor: [expect.any(Number), 61, 1, 16, 1, 576] })
  })

  it('find what another one committed, in L0', async () => {
    await start('1MiB')
    const [one, other] = [await holding(), await holding()]
    try {
      const tokens = 2 * CHUNK_TOKENS
      const { blocks } = await one.ask(`take ${tokens}`)
      expect(await one.ask('fill')).toEqual({ chunks: 2 })
      expect(await other.ask(`take ${tokens}`)).toMatchObject({ cached: tokens, blocks })
      expect(await other.ask('read')).toEqual({ values: [77] })
      const probe = ['probe', '--quick', '--cuda-library', library, '--data-dir', join(folder, 'data'), '--json']
      expect(JSON.parse((await runCommand(probe, 120_000)).stdout)).toMatchObject({
        modes: { observed: { available: true }, attached: { available: true }, managed: { available: true } },
        engine: { l0: 'managed', attachedPools: 0, borrowers: 2 },
      })
    } finally {
      await Promise.all([one.kill(), other.kill()])
    }
  })

  it('give their blocks back by dying, and not by being late', async () => {
    await start('1MiB')
    const peer = await holding()
    try {
      await peer.ask(`take ${2 * CHUNK_TOKENS + 5}`)
      const { l0 } = await status()
      expect(l0.freeBlocks).toBeLessThan(l0.capacityBlocks)
      peer.signal('SIGSTOP')
      await until('it is late', async () => ((await status()).borrowers[0]?.isLate === true ? true : undefined))
      expect(await status()).toMatchObject({
        borrowers: [{ pid: peer.pid, holds: 1 }],
        l0: { freeBlocks: l0.freeBlocks },
      })
      peer.signal('SIGCONT')
      expect(await peer.ask('fill')).toEqual({ chunks: 2 })
      await peer.kill()
      await until('it is gone', async () => ((await status()).borrowers.length === 0 ? true : undefined))
      const after = (await status()).l0
      // What it committed stays for others.
      expect([after.freeBlocks + after.cachedBlocks, after.cachedBlocks]).toEqual([after.capacityBlocks, 32])
    } finally {
      await peer.kill()
    }
  })

  it('hold up nobody with a word that they never write', async () => {
    await start('1MiB')
    const [one, other] = [await holding(), await holding()]
    try {
      await one.ask(`take ${2 * CHUNK_TOKENS}`)
      const stuck = one.ask('stuck')
      await other.ask(`take ${CHUNK_TOKENS}`)
      expect(await other.ask('fill')).toEqual({ chunks: 1 })
      expect(await stuck).toEqual({ code: 'DEVICE_TIMEOUT' })
      // Nothing of its blocks was given out; it may still commit them.
      expect(await other.ask(`take ${2 * CHUNK_TOKENS}`)).toMatchObject({ cached: CHUNK_TOKENS })
      await one.ask('fill')
      expect(await other.ask(`take ${2 * CHUNK_TOKENS}`)).toMatchObject({ cached: 2 * CHUNK_TOKENS })
    } finally {
      await Promise.all([one.kill(), other.kill()])
    }
  })

  it('are told when there is no room, and by whom they are closed', async () => {
    await start('1MiB')
    const peer = await holding()
    try {
      expect(await peer.ask('take 100000')).toEqual({ code: 'NO_ROOM' })
      expect(await peer.ask(`take ${CHUNK_TOKENS}`)).toMatchObject({ cached: 0 })
      const { id } = (await status()).borrowers[0]!
      expect(await ask('DELETE', `/v1/device/borrowers/${id}`)).toBe(204)
      expect(await ask('DELETE', `/v1/device/borrowers/${id}`)).toBe(404)
      expect(await peer.ask('fill')).toEqual({ code: 'NOT_FOUND' })
      const { l0 } = await status()
      expect(l0.freeBlocks).toBe(l0.capacityBlocks)
    } finally {
      await peer.kill()
    }
  })

  it('outlive the engine: what they committed comes back from L1 into the pool of the next one', async () => {
    await start('1MiB')
    const port = Number(engine.addresses.http!.split(':').at(-1))
    const peer = await holding()
    try {
      await peer.ask(`take ${3 * CHUNK_TOKENS}`)
      expect(await peer.ask('fill')).toEqual({ chunks: 3 })
      await engine.stop('SIGKILL')
      await start('1MiB', '64MiB', port)
      expect(await peer.ask(`take ${3 * CHUNK_TOKENS}`)).toMatchObject({ cached: 3 * CHUNK_TOKENS, generation: 2 })
      expect(await peer.ask('read')).toEqual({ values: [77] })
    } finally {
      await peer.kill()
    }
  })
})
