import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { skipUnless } from '../support/skip-unless.ts'
import { standInDriver } from '../support/stand-in-driver.ts'

const driver = await standInDriver()

// What the script finds on a GPU is for people; that it runs to its end is tested here.
describe('the script for a machine with a GPU', skipUnless(typeof driver !== 'string', String(driver)), () => {
  it('checks every method at every size, both ways, on the stand-in driver', { timeout: 300_000 }, async () => {
    const library = typeof driver === 'string' ? '' : driver.library
    const env = { ...process.env, KVTIER_CUDA_LIBRARY: library, KVTIER_GPU_MIB: '6', KVTIER_GPU_PEERS: 'none' }
    const { stdout } = await promisify(execFile)('sh', [join(import.meta.dirname, 'run.sh')], { env })
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines[0]).toMatchObject({ available: true, isStandIn: true })
    const bytes = lines.filter(({ check }) => check === 'bytes')
    expect(bytes.map(({ fine }) => fine)).toEqual(Array.from({ length: 9 }, () => true))
    for (const { method, transfersByMethod } of bytes) {
      expect(transfersByMethod[['loop', 'batch', 'kernel'].indexOf(method)], method).toBe(2)
    }
    expect(lines.filter(({ check }) => check === 'ways')).toHaveLength(3)
    expect(lines.filter(({ check }) => check === 'register').map(({ fine }) => fine)).toEqual([true, true, true, true])
    // Between two processes, then with one of them dead, then an illegal address in a third.
    expect(lines.find(({ check }) => check === 'ipc')).toMatchObject({ fine: true })
    expect(lines.find(({ check }) => check === 'semaphores')).toMatchObject({ missing: false, fine: true })
    expect(lines.find(({ check }) => check === 'deadPeer')).toMatchObject({ isReadable: true, result: 0, lostWith: 0 })
    expect(lines.find(({ check }) => check === 'lost')).toMatchObject({ result: 700, lostWith: 700, fine: true })
    expect(lines.at(-1)).toEqual({ fine: true })
  })
})
