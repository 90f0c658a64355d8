import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { CudaDevice } from '../../../src/l0/cuda-device.ts'
import { probeCuda } from '../../../src/native/cuda.ts'
import { skipUnless } from '../../support/skip-unless.ts'
import { openStandIn, type StandIn, standInDriver } from '../../support/stand-in-driver.ts'
import { until } from '../../support/until.ts'

const found = await standInDriver()
const BYTES = 64 * 1024

/** A driver of its own, which nobody has asked for its entry points yet. */
async function withDriver(version: number, use: (standIn: StandIn) => Promise<void>): Promise<void> {
  if (typeof found === 'string') throw new Error(found)
  const folder = mkdtempSync(join(tmpdir(), 'kvtier-driver-'))
  const library = join(folder, 'libcuda.so.1')
  copyFileSync(found.library, library)
  try {
    const standIn = openStandIn({ library })
    standIn.control(`version ${version}`)
    await use(standIn)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function openDevice(library: string): CudaDevice {
  const driver = probeCuda(library)
  if (!driver.available) throw new Error(driver.reason)
  const device = new CudaDevice({ library, ordinal: 0, methods: ['loop', 'batch'] }, driver)
  device.open(BYTES, new Uint8Array(BYTES))
  return device
}

describe('a CUDA driver is asked for each entry point by its ABI', skipUnless(typeof found !== 'string', ''), () => {
  it('and not called by a symbol of another: no batch before CUDA 12.8', () =>
    withDriver(12060, async ({ library, count }) => {
      const device = openDevice(library)
      const batch = device.figures()!.methods.find(({ name }) => name === 'batch')
      expect(batch).toMatchObject({ available: false, reason: expect.stringContaining('CUDA 12.8') })
      device.close()
      expect(count('violations')).toBe(0)
    }))

  it.each([12080, 13000])('the batch is that of CUDA 12.8 on a driver of %i too', (version) =>
    withDriver(version, async ({ library, count }) => {
      const device = openDevice(library)
      const offsets = Float64Array.of(0, 8192, 1024)
      const lengths = new Float64Array(3).fill(512)
      const batch = { direction: 'load', count: 3, deviceOffsets: offsets, hostOffsets: offsets, lengths } as const
      let failure: Error | null | undefined
      device.submit(device.createStream(), batch, (_, error) => (failure = error))
      await until('the fence', () => (failure === undefined ? undefined : true))
      expect(failure).toBeNull()
      expect(device.figures()!.methods.find(({ name }) => name === 'batch')).toMatchObject({ transfers: 1 })
      device.close()
      expect(count('violations')).toBe(0)
    }),
  )

  it('and one that is too old is a value with a reason', () =>
    withDriver(10020, async ({ library }) => {
      expect(probeCuda(library)).toMatchObject({ available: false, reason: expect.stringContaining('10') })
    }))
})
