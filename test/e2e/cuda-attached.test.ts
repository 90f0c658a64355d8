import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { EngineProcess, removeSharedMemory, runCommand } from '../support/engine-process.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { standInDriver } from '../support/stand-in-driver.ts'
import { until } from '../support/until.ts'

// A small model: 2 layers, K and V planes, 32 blocks of 512 bytes in each; a chunk of 256 tokens has 4 blocks.
const PLANES = 4
const BLOCKS = 32
const BLOCK_BYTES = 512
const PLANE_BYTES = BLOCKS * BLOCK_BYTES
const POOL_BYTES = PLANES * PLANE_BYTES
const CHUNK_BLOCKS = 4
const CHUNK_TOKENS = 256
const MODEL = { model: 'acme/small', chunk_bytes: PLANES * CHUNK_BLOCKS * BLOCK_BYTES, ranks: 1, layout: 'attached' }

const driver = await standInDriver()
const library = typeof driver === 'string' ? '' : driver.library

/** The inference process. */
class Peer {
  readonly handle: string
  readonly process: ChildProcess
  readonly #lines: AsyncIterator<string>

  private constructor(process: ChildProcess, lines: AsyncIterator<string>, handle: string) {
    this.process = process
    this.#lines = lines
    this.handle = handle
  }

  static async start(): Promise<Peer> {
    const program = join(REPOSITORY, 'test/support/programs/cuda-peer.ts')
    const child = spawn(process.execPath, [program, library, String(POOL_BYTES)], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    const { value: handle } = await lines.next()
    if (handle === undefined) throw new Error('the peer ended')
    return new Peer(child, lines, handle)
  }

  async ask(line: string): Promise<string> {
    this.process.stdin!.write(`${line}\n`)
    return (await this.#lines.next()).value
  }

  /** Gives a block a byte of its own in each plane. */
  async fill(block: number, value: number): Promise<void> {
    for (let plane = 0; plane < PLANES; plane += 1) {
      await this.ask(`fill ${plane * PLANE_BYTES + block * BLOCK_BYTES} ${BLOCK_BYTES} ${value + plane}`)
    }
  }

  /** What the planes of a block hold. */
  async read(block: number): Promise<string[]> {
    const values: string[] = []
    for (let plane = 0; plane < PLANES; plane += 1) {
      values.push(await this.ask(`read ${plane * PLANE_BYTES + block * BLOCK_BYTES} ${BLOCK_BYTES}`))
    }
    return values
  }

  async kill(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return
    const ended = once(this.process, 'exit')
    this.process.kill('SIGKILL')
    await ended
  }
}

/** A pool of one allocation. */
function poolOf({ handle }: Peer) {
  return {
    model: MODEL.model,
    ipc_handle: handle,
    bytes: POOL_BYTES,
    planes: Array.from({ length: PLANES }, (_, plane) => plane * PLANE_BYTES),
    block_stride: BLOCK_BYTES,
    block_bytes: BLOCK_BYTES,
  }
}

describe('an inference process that shares its GPU memory', skipUnless(library !== '', String(driver)), () => {
  let folder: string
  let engine: EngineProcess
  let peer: Peer

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'kvtier-attached-'))
    const flags = ['--l0-device', 'cuda', '--l0-size', '1MiB', '--cuda-library', library]
    engine = await EngineProcess.start({ dataDir: join(folder, 'data'), flags })
    peer = await Peer.start()
    expect((await post('/v1/models', MODEL)).status).toBeLessThan(300)
  })
  afterEach(async () => {
    await peer.kill()
    expect(await engine.stop()).toBe(0)
    removeSharedMemory(join(folder, 'data'))
    rmSync(folder, { recursive: true })
  })

  async function post(path: string, body?: object, method = 'POST') {
    const answer = await fetch(`http://${engine.addresses.http}${path}`, {
      method,
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
    })
    const text = await answer.text()
    return { status: answer.status, body: text === '' ? null : JSON.parse(text) }
  }

  const attach = async (more: object = {}) => post('/v1/device/pools', { ...poolOf(peer), ...more })
  const tokens = Array.from({ length: 2 * CHUNK_TOKENS + 7 }, (_, i) => i)

  it('has its blocks stored and loaded back into other blocks, byte for byte', async () => {
    const { body: pool } = await attach()
    expect(pool).toMatchObject({ blocks_per_chunk: CHUNK_BLOCKS, ttl_seconds: 60 })
    const from = [7, 3, 12, 0, 31, 5, 6, 20]
    const to = [1, 2, 4, 8, 9, 10, 11, 13]
    for (const [i, block] of from.entries()) await peer.fill(block, 10 * (i + 1))
    const path = `/v1/device/pools/${pool.pool_id}`
    const stored = await post(`${path}/store`, { tokens, blocks: from })
    expect(stored).toMatchObject({ status: 200, body: { chunks: 2, tokens: 512, bytes: 2 * MODEL.chunk_bytes } })
    expect((await post(`${path}/store`, { tokens, blocks: from })).body).toMatchObject({ chunks: 0 })
    const loaded = await post(`${path}/load`, { tokens, blocks: to })
    expect(loaded).toMatchObject({ status: 200, body: { chunks: 2, bytes: 2 * MODEL.chunk_bytes } })
    for (const [i, block] of to.entries()) {
      const values = Array.from({ length: PLANES }, (_, plane) => String(10 * (i + 1) + plane))
      expect(await peer.read(block), `block ${block}`).toEqual(values)
    }
    const elsewhere = await post(`${path}/load`, { tokens, blocks: to, cache_salt: 'other' })
    expect(elsewhere.body).toMatchObject({ chunks: 0 })
    expect((await post(path, undefined, 'DELETE')).status).toBe(204)
    expect((await post(`${path}/load`, { tokens, blocks: to })).status).toBe(404)
  })

  it('may have its planes in several allocations, as vLLM has one a layer', async () => {
    // The second one belongs to another process here; the engine cannot tell.
    const second = await Peer.start()
    try {
      const half = (PLANES / 2) * PLANE_BYTES
      const allocations = [
        { ipc_handle: peer.handle, bytes: half },
        { ipc_handle: second.handle, offset: half, bytes: half },
      ]
      const { ipc_handle: _, bytes: __, ...rest } = poolOf(peer)
      const { status, body: pool } = await post('/v1/device/pools', { ...rest, allocations })
      expect(status, JSON.stringify(pool)).toBe(200)
      const halves = [peer, second]
      const placesOf = (block: number) =>
        Array.from({ length: PLANES }, (_, plane) => ({
          owner: halves[Math.trunc((2 * plane) / PLANES)]!,
          at: `${plane * PLANE_BYTES + block * BLOCK_BYTES} ${BLOCK_BYTES}`,
          plane,
        }))
      const from = [31, 3, 12, 0, 7, 5, 6, 20]
      const to = [1, 2, 4, 8, 9, 10, 11, 13]
      for (const [i, block] of from.entries()) {
        for (const { owner, at, plane } of placesOf(block)) await owner.ask(`fill ${at} ${10 * (i + 1) + plane}`)
      }
      const path = `/v1/device/pools/${pool.pool_id}`
      expect((await post(`${path}/store`, { tokens, blocks: from })).body).toMatchObject({ chunks: 2 })
      expect((await post(`${path}/load`, { tokens, blocks: to })).body).toMatchObject({ chunks: 2 })
      for (const [i, block] of to.entries()) {
        for (const { owner, at, plane } of placesOf(block)) {
          expect(await owner.ask(`read ${at}`), `block ${block}, plane ${plane}`).toBe(String(10 * (i + 1) + plane))
        }
      }
      expect((await post(path, undefined, 'DELETE')).status).toBe(204)
      await until('both mappings are closed', async () => ((await importedPools()) === 0 ? true : undefined))
      // One that cannot be opened: the other is closed again.
      const broken = [allocations[0]!, { ipc_handle: '00'.repeat(64), bytes: half }]
      expect((await post('/v1/device/pools', { ...rest, allocations: broken })).status).toBe(409)
      await until('nothing stays open', async () => ((await importedPools()) === 0 ? true : undefined))
      expect((await attach({ allocations })).status).toBe(400)
      expect((await post('/v1/device/pools', rest)).status).toBe(400)
    } finally {
      await second.kill()
    }
  })

  it('is refused a layout, a block or a handle that does not fit, and nothing stays open', async () => {
    expect(await attach({ bytes: POOL_BYTES * 2 })).toMatchObject({
      status: 409,
      body: { error: { code: 'DEVICE_UNAVAILABLE' } },
    })
    expect((await attach({ planes: [POOL_BYTES] })).status).toBe(400)
    expect((await attach({ block_bytes: 384 })).status).toBe(400)
    expect((await attach({ ipc_handle: '00'.repeat(64) })).body.error.code).toBe('DEVICE_UNAVAILABLE')
    const { body: pool } = await attach()
    const path = `/v1/device/pools/${pool.pool_id}`
    expect((await post(`${path}/store`, { tokens, blocks: [1, 2] })).body.error.message).toContain('8 blocks')
    const beyond = await post(`${path}/store`, { tokens, blocks: [1, 2, 3, 4, 5, 6, 7, 4_000_000] })
    expect(beyond.body.error.code).toBe('DEVICE_FAULT')
    const again = await post(`${path}/store`, { tokens, blocks: [1, 2, 3, 4, 5, 6, 7, 8] })
    expect(again.body).toMatchObject({ chunks: 2 })
    expect((await post(path, undefined, 'DELETE')).status).toBe(204)
    await until('the mappings are closed', async () => ((await importedPools()) === 0 ? true : undefined))
  })

  it('dies: its memory stays while attached, then goes; what was stored is served', async () => {
    const { body: pool } = await attach()
    expect((await attach({ ttl_seconds: 1 })).status).toBe(200)
    const path = `/v1/device/pools/${pool.pool_id}`
    for (let block = 0; block < 8; block += 1) await peer.fill(block, 50)
    expect((await post(`${path}/store`, { tokens, blocks: [0, 1, 2, 3, 4, 5, 6, 7] })).body.chunks).toBe(2)
    await peer.kill()
    // Copies that were under way touch memory that is still there.
    expect((await post(`${path}/load`, { tokens, blocks: [8, 9, 10, 11, 12, 13, 14, 15] })).body.chunks).toBe(2)
    expect((await attach()).body.error.code).toBe('DEVICE_UNAVAILABLE')
    // Nobody renews the second one.
    await until('a pool is given up', async () => ((await importedPools()) === 1 ? true : undefined), 60_000)
    expect((await post(`${path}/renew`)).status).toBe(204)
    expect((await post('/v1/lookup', { model: MODEL.model, tokens })).body).toMatchObject({ hit_chunks: 2 })
    const selftest = await runCommand(['selftest', '--data-dir', join(folder, 'data')])
    expect(selftest, selftest.stderr).toMatchObject({ code: 0 })
  })

  async function importedPools(): Promise<number> {
    const answer = await fetch(`http://${engine.addresses.http}/status`)
    return ((await answer.json()) as { l0: { device: { importedPools: number } } }).l0.device.importedPools
  }
})
