import { createRequire } from 'node:module'
import type { KoffiFunc } from 'koffi'

type Koffi = typeof import('koffi')

/** The calls of libc that the engine makes. Addresses are plain numbers: user space ends at 2^47. */
export interface Posix {
  /** Returns -1 on failure; see `errno`. */
  readonly mmap: KoffiFunc<
    (address: number, bytes: number, protection: number, flags: number, fd: number, offset: number) => number
  >
  readonly munmap: KoffiFunc<(address: number, bytes: number) => number>
  readonly madvise: KoffiFunc<(address: number, bytes: number, advice: number) => number>
  /** Returns the error number itself, 0 when done. */
  readonly posixFallocate: KoffiFunc<(fd: number, offset: number, bytes: number) => number>
  /** Returns -1 on failure; see `errno`. */
  readonly flock: KoffiFunc<(fd: number, operation: number) => number>
  /** Commands with a number as argument. Returns -1 on failure; see `errno`. */
  readonly fcntl: KoffiFunc<(fd: number, command: number, argument: number) => number>
  readonly schedYield: KoffiFunc<() => number>
  /** A call by its number that takes a number, an address and two numbers. Returns -1 on failure; see `errno`. */
  readonly syscall: KoffiFunc<
    (call: number, first: number, memory: Uint8Array, third: number, fourth: number) => number
  >
  /** Error number of the last call of this thread that was not `.async`. */
  errno(): number
  /** Where the first byte of a view lies. */
  addressOf(view: Uint8Array): bigint
  /** The bytes at an address, not copied. They must stay mapped as long as the buffer is used. */
  view(address: bigint, bytes: number): ArrayBuffer
}

let loaded: Posix | string | undefined

/** The calls, or why there are none here: a text of one line. Loads once a thread. */
export function loadPosix(): Posix | string {
  loaded ??= load()
  return loaded
}

function load(): Posix | string {
  if (process.platform !== 'linux') return `shared memory needs Linux, this is ${process.platform}`
  try {
    const koffi = createRequire(import.meta.url)('koffi') as Koffi
    const libc = koffi.load(null)
    return {
      mmap: libc.func(
        'int64_t mmap(int64_t address, size_t bytes, int protection, int flags, int fd, int64_t offset)',
      ) as Posix['mmap'],
      munmap: libc.func('int munmap(int64_t address, size_t bytes)') as Posix['munmap'],
      madvise: libc.func('int madvise(int64_t address, size_t bytes, int advice)') as Posix['madvise'],
      posixFallocate: libc.func(
        'int posix_fallocate(int fd, int64_t offset, int64_t bytes)',
      ) as Posix['posixFallocate'],
      flock: libc.func('int flock(int fd, int operation)') as Posix['flock'],
      fcntl: libc.func('int fcntl(int fd, int command, int argument)') as Posix['fcntl'],
      schedYield: libc.func('int sched_yield()') as Posix['schedYield'],
      syscall: libc.func(
        'int64_t syscall(int64_t call, int64_t first, _Inout_ uint8_t *memory, int64_t third, int64_t fourth)',
      ) as Posix['syscall'],
      errno: () => koffi.errno(),
      addressOf: (view) => koffi.address(view),
      view: (address, bytes) => koffi.view(address, bytes) as ArrayBuffer,
    }
  } catch (error) {
    return `koffi cannot be loaded: ${String(error).split('\n')[0]}`
  }
}

/** Resolves with what the call returns. It runs on a thread of libuv's pool. */
export function callAsync<Args extends unknown[]>(
  call: KoffiFunc<(...args: Args) => number>,
  ...args: Args
): Promise<number> {
  return new Promise((resolve, reject) => {
    const done = (error: unknown, result: number) => (error ? reject(error) : resolve(result))
    call.async(...args, done)
  })
}
