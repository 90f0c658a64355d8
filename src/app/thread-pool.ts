import type { AdapterOptions, BackendOptions } from '../l2/options.ts'

/** For names, koffi calls, and adapters that are added while the engine runs. */
const SPARE_THREADS = 16
/** What libuv takes at most. */
const THREADS_MAX = 1024

/**
 * Gives libuv's pool a thread for every file operation that the adapters may have under way: a disk that hangs holds
 * up its own adapter, and nothing else. The default of 4 threads is shared by all file I/O of the process. Call it
 * before anything uses the pool; a size in the environment is left alone.
 */
export function sizeThreadPool(adapters: readonly AdapterOptions[]): void {
  const wanted = adapters.reduce((sum, { backend }) => sum + threadsOf(backend), SPARE_THREADS)
  process.env.UV_THREADPOOL_SIZE ??= String(Math.min(THREADS_MAX, wanted))
}

function threadsOf(backend: BackendOptions): number {
  if (backend.type === 'fault') return threadsOf(backend.inner)
  return backend.type === 'filesystem' ? 2 * backend.parallelism : 0
}
