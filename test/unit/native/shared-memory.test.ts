import { execFileSync, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import {
  closeSync,
  existsSync,
  lstatSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statfsSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterAll, afterEach, describe, expect, it } from 'vitest'
import { CacheError } from '../../../src/core/errors.ts'
import { capability } from '../../../src/native/capability.ts'
import {
  attachSegment,
  openSegment,
  privateSegment,
  reopenSegment,
  type SegmentHandle,
  type SharedSegment,
} from '../../../src/native/shared-memory.ts'
import { skipUnless } from '../../support/skip-unless.ts'
import { until } from '../../support/until.ts'

const MIB = 1024 * 1024
const { available, reason } = capability().sharedMemory
const whereShared = skipUnless(available, reason ?? '')

const cleanups: (() => void)[] = []
afterEach(() => {
  for (const cleanup of cleanups.splice(0).reverse()) cleanup()
})

const newName = () => `kvtier-test-${randomUUID()}`

async function open(bytes: number, name = newName()): Promise<SharedSegment> {
  const segment = await openSegment({ name, bytes })
  cleanups.push(() => {
    segment.unlink()
    segment.close()
  })
  return segment
}

async function errorOf(promise: Promise<unknown>): Promise<CacheError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(CacheError)
  return error as CacheError
}

/** Runs in a worker: adds 1 to each byte of the segment, then answers with their sum. */
async function incrementInWorker(handle: SegmentHandle): Promise<number> {
  const module = new URL('../../../src/native/shared-memory.ts', import.meta.url).href
  const source = `
    const { parentPort, workerData } = require('node:worker_threads')
    import(workerData.module).then(({ attachSegment }) => {
      const memory = attachSegment(workerData.handle)
      let sum = 0
      for (let i = 0; i < memory.length; i += 1) sum += ++memory[i]
      parentPort.postMessage(sum)
    })`
  const worker = new Worker(source, { eval: true, workerData: { module, handle } })
  const sum = await new Promise<number>((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  await worker.terminate()
  return sum
}

describe('a shared segment', whereShared, () => {
  it('is zeroed, private to the user, and as long as asked', async () => {
    const segment = await open(3 * MIB + 12_345)
    expect(segment.kind).toBe('shared')
    expect(segment.memory.length).toBe(3 * MIB + 12_345)
    expect(segment.memory.every((byte) => byte === 0)).toBe(true)
    const stat = lstatSync(join('/dev/shm', segment.name))
    expect(stat.size).toBe(segment.bytes)
    expect(stat.mode & 0o777).toBe(0o600)
    expect(stat.blocks * 512).toBeGreaterThanOrEqual(segment.bytes)
  })

  it('shows two threads the same bytes', async () => {
    const segment = await open(64 * 1024)
    segment.memory.fill(7)
    expect(await incrementInWorker(segment.handle)).toBe(8 * 64 * 1024)
    expect(segment.memory.every((byte) => byte === 8)).toBe(true)
  })

  it('is the file that other processes map by name', async () => {
    const segment = await open(4096)
    segment.memory.set([1, 2, 3], 100)
    expect([...readFileSync(join('/dev/shm', segment.name)).subarray(99, 104)]).toEqual([0, 1, 2, 3, 0])
  })

  it('reports progress up to its size', async () => {
    const seen: number[] = []
    const segment = await openSegment({ name: newName(), bytes: 70 * MIB, onProgress: (done) => seen.push(done) })
    cleanups.push(() => segment.close(), segment.unlink.bind(segment))
    expect(seen.length).toBe(3)
    expect(seen.at(-1)).toBe(70 * MIB)
    expect(seen).toEqual([...seen].sort((a, b) => a - b))
  })

  it('leaves empty views, not dangling ones, when it is closed', async () => {
    const segment = await open(4096)
    const view = segment.memory.subarray(10, 20)
    segment.close()
    segment.close()
    expect(view.length).toBe(0)
    expect(segment.memory.length).toBe(0)
  })

  it('removes its own name and nobody else’s', async () => {
    const segment = await open(4096)
    const path = join('/dev/shm', segment.name)
    rmSync(path)
    writeFileSync(path, 'another engine')
    cleanups.push(() => rmSync(path, { force: true }))
    segment.unlink()
    expect(existsSync(path)).toBe(true)
  })
})

describe('opening a segment', whereShared, () => {
  it('names both sizes and the fix when it is too large', async () => {
    const name = newName()
    const error = await errorOf(openSegment({ name, bytes: 2 ** 50 }))
    expect(error.code).toBe('SHARED_MEMORY_TOO_SMALL')
    expect(error.message).toMatch(/1073741824\.0 MiB .* room for \d+\.\d MiB: lower --l1-size, .*--shm-size/)
    expect(error.message).not.toContain('\n')
    expect(existsSync(join('/dev/shm', name))).toBe(false)
  })

  it('refuses a name that is taken, unless told that it is stale', async () => {
    const name = newName()
    const path = join('/dev/shm', name)
    writeFileSync(path, 'left by a dead engine')
    cleanups.push(() => rmSync(path, { force: true }))
    expect((await errorOf(openSegment({ name, bytes: 4096 }))).code).toBe('SHARED_MEMORY_UNAVAILABLE')
    expect(readFileSync(path, 'utf8')).toBe('left by a dead engine')
    const segment = await openSegment({ name, bytes: 4096, replaceStale: true })
    cleanups.push(() => segment.close(), segment.unlink.bind(segment))
    expect(segment.memory[0]).toBe(0)
  })

  it.each([false, true])('does not follow a symlink (replaceStale %s)', async (replaceStale) => {
    const name = newName()
    const path = join('/dev/shm', name)
    const target = join('/dev/shm', `${name}-target`)
    writeFileSync(target, 'precious')
    symlinkSync(target, path)
    cleanups.push(
      () => rmSync(target),
      () => rmSync(path),
    )
    const error = await errorOf(openSegment({ name, bytes: 4096, replaceStale }))
    expect(error.code).toBe('SHARED_MEMORY_UNAVAILABLE')
    expect(readFileSync(target, 'utf8')).toBe('precious')
  })

  it.each(['', '..', '.hidden', 'a/b', '../x'])('refuses the name %j', async (name) => {
    expect((await errorOf(openSegment({ name, bytes: 4096 }))).code).toBe('SHARED_MEMORY_UNAVAILABLE')
  })

  it('says so when the directory is not there', async () => {
    const error = await errorOf(openSegment({ name: newName(), bytes: 4096, directory: '/nonexistent' }))
    expect(error).toBeInstanceOf(CacheError)
  })
})

const mounted = mountSmall()
const whereMountable = skipUnless(mounted !== undefined, 'mounting a small tmpfs is not permitted here')

/** A tmpfs of 128 MiB, or undefined when this user may not mount. */
function mountSmall(): string | undefined {
  if (!available) return undefined
  const directory = mkdtempSync(join(tmpdir(), 'kvtier-tmpfs-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=128m', 'tmpfs', directory], { stdio: 'ignore' })
  } catch {
    rmSync(directory, { recursive: true })
    return undefined
  }
  return directory
}

afterAll(() => {
  if (mounted === undefined) return
  execFileSync('umount', ['-l', mounted])
  rmSync(mounted, { recursive: true })
})

describe('a file system that is full', whereMountable, () => {
  it('is an error before anything is created when it shows at once', async () => {
    const error = await errorOf(openSegment({ name: 'segment', bytes: 129 * MIB, directory: mounted! }))
    expect(error.code).toBe('SHARED_MEMORY_TOO_SMALL')
    expect(error.detail.roomBytes).toBe(128 * MIB)
  })

  it('is an error, not a crash, when others fill it meanwhile; and nothing is left', async () => {
    const hog = join(mounted!, 'hog')
    cleanups.push(() => rmSync(hog))
    let isFilled = false
    const onProgress = () => {
      if (!isFilled) writeFileSync(hog, Buffer.alloc(40 * MIB))
      isFilled = true
    }
    const error = await errorOf(openSegment({ name: 'segment', bytes: 128 * MIB, directory: mounted!, onProgress }))
    expect(error.code).toBe('SHARED_MEMORY_TOO_SMALL')
    expect(existsSync(join(mounted!, 'segment'))).toBe(false)
    const { bavail, bsize } = statfsSync(mounted!)
    expect(bavail * bsize).toBe(88 * MIB)
  })
})

describe('a private segment', () => {
  it('says that it is private, and other threads of the process see it', async () => {
    const segment = privateSegment(4096)
    expect([segment.kind, segment.name, segment.bytes]).toEqual(['private', '', 4096])
    expect(await incrementInWorker(segment.handle)).toBe(4096)
    expect(segment.memory[4095]).toBe(1)
    expect(attachSegment(segment.handle)[0]).toBe(1)
  })
})

it('puts its name back when a client has removed it, and takes both names away at the end', whereShared, async () => {
  const name = `kvtier-test-${process.pid}-names`
  const segment = await openSegment({ name, bytes: 64 * 1024 })
  const path = join('/dev/shm', name)
  segment.memory[0] = 7
  unlinkSync(path)
  segment.restoreName()
  expect(readFileSync(path)[0]).toBe(7)
  segment.restoreName()
  segment.unlink()
  segment.restoreName()
  expect([existsSync(path), existsSync(`${path}.keep`)]).toEqual([false, false])
  segment.close()
})

describe('the kernel vouches that nobody else has the segment open', whereShared, () => {
  /** A process that opens the segment again and again, or once, until it is killed. */
  async function opener(path: string, mode: 'holds' | 'opens and closes') {
    const script = `
      const fs = require('node:fs')
      let fd = fs.openSync(${JSON.stringify(path)}, 'r+')
      console.log('open')
      if (${JSON.stringify(mode)} === 'holds') setInterval(() => {}, 1000)
      else for (;;) { fs.closeSync(fd); fd = fs.openSync(${JSON.stringify(path)}, 'r+') }`
    const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
    cleanups.push(() => child.kill('SIGKILL'))
    await once(child.stdout, 'data')
    return async () => {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
  }

  it('while it is so, and again when who had it was killed', async () => {
    const name = newName()
    const segment = await open(64 * 1024, name)
    expect(segment.isOnlyOurs()).toBe(true)
    const fd = openSync(join('/dev/shm', name), 'r+') // another file description counts, of this process too
    expect(segment.isOnlyOurs()).toBe(false)
    closeSync(fd)
    expect(segment.isOnlyOurs()).toBe(true)
    const kill = await opener(join('/dev/shm', name), 'holds')
    expect(segment.isOnlyOurs()).toBe(false)
    await kill()
    await until('the kernel has let go', () => (segment.isOnlyOurs() ? true : undefined))
    attachSegment(segment.handle) // the same mapping
    expect(segment.isOnlyOurs()).toBe(true)
  })

  it('of a segment that was mapped again too', async () => {
    const name = newName()
    const first = await openSegment({ name, bytes: 64 * 1024 })
    first.close()
    const second = await reopenSegment({ name, bytes: 64 * 1024, inode: first.inode })
    if (typeof second === 'string') throw new Error(second)
    cleanups.push(() => {
      second.unlink()
      second.close()
    })
    expect(second.isOnlyOurs()).toBe(true)
    expect(first.isOnlyOurs()).toBe(false) // it is closed
  })

  it('and asking harms neither side, however often others open it meanwhile', async () => {
    const name = newName()
    const segment = await open(64 * 1024, name)
    await opener(join('/dev/shm', name), 'opens and closes')
    const answers = new Set<boolean>()
    for (let round = 0; round < 20_000; round += 1) answers.add(segment.isOnlyOurs())
    await new Promise((resolve) => setImmediate(resolve)) // a signal that nobody handled would have ended this process
    expect(answers.size).toBeGreaterThan(0)
    segment.memory[0] = 1
    expect(readFileSync(join('/dev/shm', name))[0]).toBe(1)
  })

  it('never of private memory', () => {
    expect(privateSegment(4096).isOnlyOurs()).toBe(false)
  })
})
