import { type ChildProcess, fork } from 'node:child_process'
import { setPriority } from 'node:os'
import { fileURLToPath } from 'node:url'
import { CallPort, type RpcPort } from '../core/rpc.ts'
import { workerUrl } from '../core/worker-url.ts'
import { setTimeSlice } from '../native/time-slice.ts'
import type { TokenizerOptions } from './options.ts'
import type { TokenizerProcess } from './tokenizer-pool.ts'

/** Memory of its JavaScript: a template or a vocabulary that wants more ends the process, not the engine. */
const HEAP_MAX_MIB = 1024

/** Its niceness: where processors are short, lookups go first. */
const NICENESS = 5
/** Its turns on a processor, in milliseconds: longer ones than usual give way sooner. */
const SLICE_MS = 5

/**
 * Its whole environment. The native library works on libuv's threads, and is twice as fast where they are few: each has
 * caches of its own. The engine's process has many, for its disks.
 */
const ENVIRONMENT = { UV_THREADPOOL_SIZE: '2' }

/**
 * Starts a process that tokenizes. Not a thread: native code that takes too long can only be ended with its process, and
 * what a hostile text makes it do stays out of the engine. It ends by itself when the engine is gone.
 *
 * @param onEnd told when it ends, however.
 */
export function startTokenizerProcess(options: TokenizerOptions, onEnd: () => void): TokenizerProcess {
  const child = fork(fileURLToPath(workerUrl(import.meta.url, './tokenizer-main')), [JSON.stringify(options)], {
    serialization: 'advanced',
    env: ENVIRONMENT,
    execArgv: [`--max-old-space-size=${HEAP_MAX_MIB}`],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  yieldToOthers(child)
  const port: RpcPort = {
    on: (event, listener) => {
      return event === 'message' ? child.on('message', listener) : child
    },
    postMessage: (message) => {
      if (child.connected) child.send(message as object, () => {}) // a failure is the end of the process, told below
    },
    close: () => void child.kill('SIGKILL'),
  }
  const calls = new CallPort(port)
  const ended = () => {
    onEnd()
    calls.close()
  }
  child.on('error', ended)
  child.on('exit', ended)
  return { call: (method, args) => calls.call(method, args), end: () => calls.close() }
}

function yieldToOthers({ pid }: ChildProcess): void {
  if (pid === undefined) return
  setTimeSlice({ milliseconds: SLICE_MS, isInherited: true }, pid)
  try {
    setPriority(pid, NICENESS)
  } catch {
    // It has ended already, or the system has no such thing: it runs like the others.
  }
}
