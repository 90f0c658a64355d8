import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { findAddon } from '../../src/native/addon-files.ts'
import { skipUnless } from '../support/skip-unless.ts'
import { REPOSITORY } from '../support/source-tree.ts'
import { standInDriver } from '../support/stand-in-driver.ts'

const found = await standInDriver()
const needsDriver = skipUnless(typeof found !== 'string', String(found))

// Model: the bytes of pool and host memory (support/cuda-life). In a process of its own: threads of the test's end there.
it.for([1, 2, 3])(
  'CUDA devices in several threads keep to a model of their bytes and fences while calls fail, and leave nothing (seed %i)',
  needsDriver,
  async (seed) => {
    const program = join(REPOSITORY, 'test/support/programs/cuda-life.ts')
    const { library } = found as { library: string }
    const argv = [program, findAddon(REPOSITORY)!, library, String(seed), '100', '3']
    const { stdout, stderr } = await promisify(execFile)(process.execPath, argv)
    expect({ stdout, stderr }).toEqual({ stdout: '100 rounds, with fences\n', stderr: '' })
  },
)
