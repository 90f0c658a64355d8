import { afterEach, beforeEach, expect, it } from 'vitest'
import { sizeThreadPool } from '../../../src/app/thread-pool.ts'
import { FAULT_DEFAULT } from '../../../src/l2/adapters/fault/options.ts'
import {
  ADAPTER_LIMITS_DEFAULT,
  type BackendOptions,
  FILESYSTEM_DEFAULT,
  MEMORY_DEFAULT,
} from '../../../src/l2/options.ts'

const disk = { ...FILESYSTEM_DEFAULT, directory: '/d', parallelism: 8 }
let before: string | undefined

beforeEach(() => {
  before = process.env.UV_THREADPOOL_SIZE
  delete process.env.UV_THREADPOOL_SIZE
})

afterEach(() => {
  if (before === undefined) delete process.env.UV_THREADPOOL_SIZE
  else process.env.UV_THREADPOOL_SIZE = before
})

function sizeFor(...backends: BackendOptions[]): number {
  sizeThreadPool(backends.map((backend) => ({ name: 'a', backend, limits: ADAPTER_LIMITS_DEFAULT })))
  return Number(process.env.UV_THREADPOOL_SIZE)
}

it('grows by what each disk may have under way, also behind a fault injector', () => {
  const base = sizeFor(MEMORY_DEFAULT)
  for (const [backends, extra] of [
    [[disk], 16],
    [[disk, { ...FAULT_DEFAULT, inner: disk }], 32],
  ] as const) {
    delete process.env.UV_THREADPOOL_SIZE
    expect(sizeFor(...backends)).toBe(base + extra)
  }
})

it('stays within what libuv takes', () => {
  expect(sizeFor({ ...disk, parallelism: 10_000 })).toBe(1024)
})

it('leaves a size of the environment alone', () => {
  process.env.UV_THREADPOOL_SIZE = '5'
  expect(sizeFor(disk)).toBe(5)
})
