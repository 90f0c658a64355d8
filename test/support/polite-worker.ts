import { readlinkSync } from 'node:fs'
import { getPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { yieldToOtherThreads } from '../../src/app/thread-priority.ts'

// A thread that lets others go first, and says what its priority was before and is now.
const thread = Number(readlinkSync('/proc/thread-self').split('/')[2])
const before = getPriority(thread)
await yieldToOtherThreads()
parentPort!.postMessage({ before, after: getPriority(thread) })
