import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, type TestContext } from 'vitest'
import { addonSources } from '../../../src/native/addon-files.ts'
import { packageFolder } from '../../compat/python-environment.ts'
import { REPOSITORY } from '../../support/source-tree.ts'

const OWN = join(addonSources(REPOSITORY), 'cuda')

/** A file of a package of the vendor, of the version that the declarations were written by. Skips where it cannot be had. */
function vendorFile({ skip }: TestContext, name: string, version: string, path: string): string {
  try {
    return join(packageFolder('python3', name, version), path)
  } catch (error) {
    skip(`${name} ${version} cannot be installed: ${String(error).split('\n')[0]}`)
    throw error
  }
}

it('declares the CUDA driver as the vendor does: parameters, structures, numbers', (context) => {
  context.skip(spawnSync('g++', ['--version']).error !== undefined, 'g++ is not installed')
  const headers = vendorFile(context, 'nvidia-cuda-runtime-cu12', '12.9.79', 'nvidia/cuda_runtime/include')
  const source = join(REPOSITORY, 'test/support/cuda-abi/abi-check.cc')
  const compile = (...more: string[]) =>
    spawnSync('g++', ['-std=c++17', '-fsyntax-only', '-I', headers, '-I', OWN, ...more, source], { encoding: 'utf8' })
  const { status, stderr } = compile()
  expect(stderr).toBe('')
  expect(status).toBe(0)
  // A check that cannot fail says nothing.
  expect(compile('-DcuMemFree_v2=cuMemGetInfo_v2').status).not.toBe(0)
})

it('has a kernel that the vendor assembles for every architecture from 7.0 on', (context) => {
  const ptxas = vendorFile(context, 'nvidia-cuda-nvcc-cu12', '12.9.86', 'nvidia/cuda_nvcc/bin/ptxas')
  const text = readFileSync(join(OWN, 'copy-kernel.cc'), 'utf8').split('R"ptx(')[1]!.split(')ptx"')[0]!
  const folder = mkdtempSync(join(tmpdir(), 'kvtier-ptx-'))
  try {
    chmodSync(ptxas, 0o755)
    writeFileSync(join(folder, 'kernel.ptx'), text)
    for (const architecture of ['sm_70', 'sm_75', 'sm_80', 'sm_90', 'sm_100', 'sm_120']) {
      execFileSync(ptxas, [`-arch=${architecture}`, join(folder, 'kernel.ptx'), '-o', join(folder, 'kernel.cubin')])
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
})
