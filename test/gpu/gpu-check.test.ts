import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { skipUnless } from '../support/skip-unless.ts'
import { standInDriver } from '../support/stand-in-driver.ts'

const driver = await standInDriver()
const SCRIPT = join(import.meta.dirname, 'run.sh')
const library = typeof driver === 'string' ? '' : driver.library

/** Runs the script without its peers. Its exit code, its lines and the file that it writes. */
async function run(more: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), 'kvtier-gpu-run-'))
  const file = join(folder, 'result.json')
  const env = {
    ...process.env,
    KVTIER_CUDA_LIBRARY: library,
    KVTIER_GPU_MIB: '8',
    KVTIER_GPU_PEERS: 'none',
    CXXFLAGS: '-O0',
    ...more,
  }
  const ended: Promise<{ code?: number; stdout: string }> = promisify(execFile)('sh', [SCRIPT, file], { env })
  const { code = 0, stdout } = await ended.catch((error: { code: number; stdout: string }) => error)
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const written = JSON.parse(readFileSync(file, 'utf8')).lines
  rmSync(folder, { recursive: true })
  return { code, lines, written }
}

// What the script finds on a GPU is for people; that it runs to its end is tested here.
describe('the script for a machine with a GPU', skipUnless(library !== '', String(driver)), () => {
  it('checks every method at every size, both ways, on the stand-in driver', { timeout: 600_000 }, async () => {
    const { code, lines, written } = await run({ KVTIER_GPU_SECONDS: '550' })
    expect(code, JSON.stringify(lines.filter((line) => line.exitCode > 0 || line.fine === false))).toBe(0)
    expect(written).toEqual(lines)
    const of = (check: string) => lines.filter((line) => line.check === check)
    expect(lines.find(({ available }) => available)).toMatchObject({ isStandIn: true })
    expect(of('driver')).toMatchObject([{ batch: true, words: true, kernelResult: 0 }])
    expect(of('bytes').map(({ fine }) => fine)).toEqual(Array.from({ length: 9 }, () => true))
    for (const { method, transfersByMethod } of of('bytes')) {
      expect(transfersByMethod[['loop', 'batch', 'kernel'].indexOf(method)], method).toBe(2)
    }
    expect(of('register').map(({ fine }) => fine)).toEqual([true, true, true, true])
    expect(of('queues')).toMatchObject([{ waitingStreams: 16, copied: true, wentOn: true, fine: true }])
    // Between two processes, then with one of them dead, then an illegal address in a third, after all else.
    expect(of('ipc')).toMatchObject([{ fine: true }])
    expect(of('semaphores')).toMatchObject([{ missing: false, fine: true }])
    expect(of('deadPeer')).toMatchObject([{ isReadable: true, result: 0, lostWith: 0 }])
    expect(lines.slice(-3)).toMatchObject([
      { check: 'lost', result: 700, lostWith: 700, fine: true },
      { part: 'loss', exitCode: 0 },
      { fine: true },
    ])
    // Whether it holds is for a GPU to say; that each was measured, and beside what, is not.
    const must = lines.filter((line) => line.must !== undefined)
    for (const line of must) {
      expect(line).toMatchObject({ measured: expect.any(Number), floor: expect.any(Number), rounds: 15 })
      expect(typeof line.holds).toBe('boolean')
    }
    const large = [1, 2, 4].flatMap((mib) => ['load', 'store'].map((way) => `${way} of ${mib} MiB pieces`))
    const small = [8, 16, 32].flatMap((kib) => ['load', 'store'].map((way) => `${way} of 64 pieces of ${kib} KiB`))
    for (const name of [...large, ...small, 'both ways at once']) {
      expect(
        must.filter((line) => line.must.startsWith(`${name},`)),
        name,
      ).toHaveLength(1)
    }
    expect(lines.at(-1)).toMatchObject({ of: must.length, held: must.filter(({ holds }) => holds).length })
  })

  it('goes on with the next part when one fails, and says which', { timeout: 600_000 }, async () => {
    // Every process of the run loses its device at its 40th wait: the parts with few are well.
    const { code, lines, written } = await run({ STAND_IN_CUDA: 'fail cuEventSynchronize 40 719' })
    expect(code).toBe(1)
    expect(written).toEqual(lines)
    const codes = Object.fromEntries(lines.filter(({ part }) => part).map(({ part, exitCode }) => [part, exitCode]))
    expect(codes).toMatchObject({ driver: 0, bytes: 0, rates: 1, register: 0, queues: 0, peers: 0, loss: 0 })
    expect(lines.at(-1)).toMatchObject({ fine: false })
  })
})
