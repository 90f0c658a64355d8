import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setImmediate } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { SystemClock } from '../../src/core/clock.ts'
import { OUTCOME_NOT_FOUND, OUTCOME_OK } from '../../src/l2/adapter.ts'
import { FilesystemAdapter } from '../../src/l2/adapters/filesystem.ts'
import { HEADER_BYTES } from '../../src/l2/object-format.ts'
import { FILESYSTEM_DEFAULT, type FilesystemAdapterOptions } from '../../src/l2/options.ts'
import { lockFile } from '../../src/native/file-lock.ts'
import {
  bytesOf,
  CRASH_SPACE,
  filesBelow,
  loadChain,
  objectFiles,
  storeChain,
  temporaryDirectory,
} from '../support/l2-objects.ts'
import { random } from '../support/random.ts'
import { FILE_WAYS, type FileWayName, wholeFilesOf } from '../support/whole-files.ts'

const PROGRAM = fileURLToPath(new URL('../support/programs/store-objects.ts', import.meta.url))
/** File calls before which it dies. */
const CALLS = [
  'mkdir',
  'open',
  'stat',
  'writev',
  'datasync',
  'rename',
  'sync',
  'unlink',
  'appendFile',
  'close',
  'writev',
  'rename',
]
/** Calls of the system before which it dies while the addon moves its objects; those of libuv count too. */
const SYSTEM_CALLS = ['open', 'pwritev', 'fdatasync', 'close', 'rename', 'fsync', 'pwritev', 'rename']
/** Chains that the program chooses from. */
const CHAINS = 100
const OBJECT_BYTES = HEADER_BYTES + CRASH_SPACE.shardBytes

type Durability = FilesystemAdapterOptions['durability']

interface Batch {
  readonly chain: number
  readonly to: number
}

/** Runs the storing program until `batches` of its batches are done, and a little longer; then kills it. */
async function storeUntilKilled(
  directory: string,
  capacityBytes: number,
  durability: Durability,
  way: FileWayName,
  seed: number,
  next: (limit: number) => number,
) {
  const child = start(directory, capacityBytes, durability, way, seed)
  const exited = once(child, 'exit')
  const acknowledged: Batch[] = []
  const batches = 3 + next(12)
  for await (const line of createInterface({ input: child.stdout! })) {
    if (line === 'open') continue
    const [chain, , to] = line.split(' ').map(Number)
    acknowledged.push({ chain: chain!, to: to! })
    if (acknowledged.length !== batches) continue
    for (let turn = next(200); turn > 0; turn -= 1) await setImmediate()
    child.kill('SIGKILL')
  }
  await exited
  return acknowledged
}

function start(
  directory: string,
  capacityBytes: number,
  durability: Durability,
  way: FileWayName,
  seed: number,
  crash: (number | string)[] = [],
  env: NodeJS.ProcessEnv = {},
): ChildProcess {
  const argv = [PROGRAM, directory, capacityBytes, seed, durability, way, ...crash].map(String)
  return spawn(process.execPath, argv, { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, ...env } })
}

/** Compiles a library of `test/support/native` where the addon was compiled too. @returns its path. */
function buildSource(name: string, path: string): string {
  const source = fileURLToPath(new URL(`../support/native/${name}`, import.meta.url))
  const argv = ['-std=c++17', '-O1', '-fPIC', '-shared', '-Wall', '-Wextra', source, '-o', path, '-ldl']
  const { stderr, status } = spawnSync('g++', argv, { encoding: 'utf8' })
  expect([stderr, status]).toEqual(['', 0])
  return path
}

async function open(directory: string, capacityBytes: number): Promise<FilesystemAdapter> {
  const options = { ...FILESYSTEM_DEFAULT, directory, capacityBytes }
  const adapter = new FilesystemAdapter(options, { clock: new SystemClock(), lock: lockFile })
  await adapter.open()
  return adapter
}

/** Opens what a killed process left and checks it. @returns the adapter, for more questions; the caller closes it. */
async function inspect(directory: string, capacityBytes: number, name: string): Promise<FilesystemAdapter> {
  const adapter = await open(directory, capacityBytes)
  const files = objectFiles(directory)
  expect(adapter.usage(), name).toMatchObject({ bytes: bytesOf(files), objects: files.length })
  if (capacityBytes > 0) expect(bytesOf(files), name).toBeLessThanOrEqual(capacityBytes)
  expect(adapter.quarantinedFiles, `${name}: an object was visible half-written`).toBe(0)
  expect(filesBelow(join(directory, 'tmp')), name).toEqual([])
  adapter.verify()
  // Every object the program may have written, acknowledged or not; `loadChain` compares the bytes.
  let served = 0
  for (let chain = 0; chain < CHAINS; chain += 1) {
    const outcomes = await loadChain(adapter, chain, 0, 6, CRASH_SPACE)
    expect(outcomes.every((outcome) => outcome === OUTCOME_OK || outcome === OUTCOME_NOT_FOUND)).toBe(true)
    served += outcomes.filter((outcome) => outcome === OUTCOME_OK).length
  }
  expect(served, name).toBe(files.length)
  return adapter
}

describe.each(FILE_WAYS)('with objects that are moved by %s,', (way) => {
  it.for([
    ['no limit', 'fsync', 0, [1, 2, 3, 4]],
    ['room for 20 objects', 'fsync', 20 * OBJECT_BYTES, [5, 6, 7, 8]],
    ['no limit', 'checksum', 0, [9, 10, 11]],
    ['room for 20 objects', 'checksum', 20 * OBJECT_BYTES, [12, 13, 14]],
  ] as const)(
    'kill -9 in the middle of stores leaves no torn object, and exact usage (%s, %s)',
    async ([_limit, durability, capacityBytes, seeds], context) => {
      await wholeFilesOf(way, context)
      const directory = temporaryDirectory()
      const acknowledged: Batch[] = []
      try {
        for (const seed of seeds) {
          acknowledged.push(
            ...(await storeUntilKilled(directory.path, capacityBytes, durability, way, seed, random(seed))),
          )
          const adapter = await inspect(directory.path, capacityBytes, `seed ${seed}`)
          for (const { chain, to } of capacityBytes === 0 ? acknowledged : []) {
            expect(await loadChain(adapter, chain, 0, to, CRASH_SPACE)).toEqual(Array(to).fill(OUTCOME_OK))
          }
          await adapter.close()
        }
      } finally {
        directory.remove()
      }
    },
  )
})

it.each([
  ['fsync', 1],
  ['fsync', 2],
  ['checksum', 3],
] as const)(
  'a crash before any one file call, writes torn in half, does no more harm (%s, seed %i)',
  async (durability, seed) => {
    const directory = temporaryDirectory()
    const capacityBytes = 8 * OBJECT_BYTES
    const next = random(seed)
    try {
      for (const call of durability === 'fsync' ? CALLS : CALLS.filter((name) => !name.endsWith('sync'))) {
        const crashAt = 1 + next(12)
        const child = start(directory.path, capacityBytes, durability, 'node:fs', next(1000), [crashAt, call])
        child.stdout!.resume()
        await once(child, 'exit')
        await (await inspect(directory.path, capacityBytes, `seed ${seed}, ${call} ${crashAt}`)).close()
      }
    } finally {
      directory.remove()
    }
  },
)

it.for([
  ['fsync', 1],
  ['checksum', 2],
] as const)(
  'a crash before any one call of the system, writes torn in half, does no more harm while the addon moves objects (%s, seed %i)',
  async ([durability, seed], context) => {
    await wholeFilesOf('the addon', context)
    const directory = temporaryDirectory()
    const library = buildSource('crash-before-call.cc', join(directory.path, 'crash.so'))
    const l2 = join(directory.path, 'l2')
    const capacityBytes = 8 * OBJECT_BYTES
    const next = random(seed)
    try {
      for (const call of durability === 'fsync'
        ? SYSTEM_CALLS
        : SYSTEM_CALLS.filter((name) => !name.endsWith('sync'))) {
        const crashAt = 1 + next(12)
        const env = { LD_PRELOAD: library, KVTIER_CRASH: `${crashAt}:${call}:${l2}` }
        const child = start(l2, capacityBytes, durability, 'the addon', next(1000), [], env)
        child.stdout!.resume()
        const [, signal] = (await once(child, 'exit')) as [number | null, string | null]
        expect(signal).toBe('SIGKILL')
        await (await inspect(l2, capacityBytes, `seed ${seed}, ${call} ${crashAt}`)).close()
      }
    } finally {
      directory.remove()
    }
  },
)

it('two processes do not share a directory, and a killed one leaves it free', async () => {
  const directory = temporaryDirectory()
  const child = start(directory.path, 0, 'fsync', 'node:fs', 1)
  try {
    await once(child.stdout!, 'data')
    await expect(open(directory.path, 0)).rejects.toMatchObject({
      code: 'DATA_DIR_LOCKED',
      message: expect.stringMatching(/^[^\n]+$/),
    })
    const exited = once(child, 'exit')
    child.stdout!.resume()
    child.kill('SIGKILL')
    await exited
    const adapter = await open(directory.path, 0)
    expect(await storeChain(adapter, 5000, 0, 1)).toEqual([OUTCOME_OK])
    await adapter.close()
  } finally {
    child.kill('SIGKILL')
    directory.remove()
  }
})
