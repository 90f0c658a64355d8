import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, type TestContext } from 'vitest'
import { addonSources } from '../../../src/native/addon-files.ts'
import { packageFolder } from '../../compat/python-environment.ts'
import { REPOSITORY } from '../../support/source-tree.ts'

const OWN = join(addonSources(REPOSITORY), 'cuda')
const CUDA_12 = {
  cuda: '12.9',
  headers: ['nvidia-cuda-runtime-cu12', '12.9.79', 'nvidia/cuda_runtime/include'],
  ptxas: ['nvidia-cuda-nvcc-cu12', '12.9.86', 'nvidia/cuda_nvcc/bin/ptxas'],
  architectures: ['sm_70', 'sm_75', 'sm_80', 'sm_86', 'sm_89', 'sm_90', 'sm_100', 'sm_120'],
} as const
const CUDA_13 = {
  cuda: '13.0',
  headers: ['nvidia-cuda-runtime', '13.0.96', 'nvidia/cu13/include'],
  ptxas: ['nvidia-cuda-nvcc', '13.0.88', 'nvidia/cu13/bin/ptxas'],
  architectures: ['sm_75', 'sm_80', 'sm_86', 'sm_89', 'sm_90', 'sm_100', 'sm_120'],
} as const
/** Registers of a thread at most, so that four blocks of 512 threads fit a multiprocessor of 65,536. */
const REGISTERS_MAX = 40

/** A file of a package of the vendor, of the version that the declarations were written by. Skips where it cannot be had. */
function vendorFile({ skip }: TestContext, [name, version, path]: readonly [string, string, string]): string {
  try {
    return join(packageFolder('python3', name, version), path)
  } catch (error) {
    skip(`${name} ${version} cannot be installed: ${String(error).split('\n')[0]}`)
    throw error
  }
}

it.for([CUDA_12, CUDA_13])('declares the driver as the vendor of CUDA $cuda does', ({ headers }, context) => {
  context.skip(spawnSync('g++', ['--version']).error !== undefined, 'g++ is not installed')
  const folder = vendorFile(context, headers)
  const source = join(REPOSITORY, 'test/support/cuda-abi/abi-check.cc')
  const compile = (...more: string[]) =>
    spawnSync('g++', ['-std=c++17', '-fsyntax-only', '-I', folder, '-I', OWN, ...more, source], { encoding: 'utf8' })
  expect(compile()).toMatchObject({ status: 0, stderr: '' })
  // A check that cannot fail says nothing.
  expect(compile('-DKVTIER_PLANTED_FAULT').stderr).toContain('planted')
})

it.for([CUDA_12, CUDA_13])(
  'has a kernel that the assembler of CUDA $cuda takes',
  ({ ptxas, architectures }, context) => {
    const assembler = vendorFile(context, ptxas)
    const text = readFileSync(join(OWN, 'copy-kernel.cc'), 'utf8').split('R"ptx(')[1]!.split(')ptx"')[0]!
    const folder = mkdtempSync(join(tmpdir(), 'kvtier-ptx-'))
    try {
      chmodSync(assembler, 0o755)
      const source = join(folder, 'kernel.ptx')
      writeFileSync(source, text)
      for (const architecture of architectures) {
        const argv = ['-v', `-arch=${architecture}`, source, '-o', join(folder, 'kernel.cubin')]
        const { status, stderr } = spawnSync(assembler, argv, { encoding: 'utf8' })
        expect(status, `${architecture}: ${stderr}`).toBe(0)
        expect(stderr, architecture).toContain('0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads')
        expect(Number(/Used (\d+) registers/.exec(stderr)?.[1]), architecture).toBeLessThanOrEqual(REGISTERS_MAX)
      }
      writeFileSync(source, text.replace('ret;', 'rat;'))
      expect(() => execFileSync(assembler, ['-arch=sm_90', source], { stdio: 'pipe', cwd: folder })).toThrow()
    } finally {
      rmSync(folder, { recursive: true })
    }
  },
)
