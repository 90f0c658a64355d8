import { parentPort } from 'node:worker_threads'
import { goBeforeOtherThreads, takeLongTurns } from '../../src/app/thread-priority.ts'
import { timeSliceOf } from '../../src/native/time-slice.ts'

// A thread that asks for short turns, then for long ones, and says what it had, was told and got.
const before = timeSliceOf()
const refusal = goBeforeOtherThreads()
const short = timeSliceOf()
takeLongTurns()
parentPort!.postMessage({ before, refusal, short, long: timeSliceOf() })
