import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parentPort, Worker, workerData } from 'node:worker_threads'
import type { Addon } from '../../../src/native/addon.ts'
import { random } from '../random.ts'

// Moves files with a binary of the addon, with memory of exact sizes, in threads that end while moves are under way. Run
// under a sanitizer, which ends the process at the first byte that is read or written beside it or too late.
//
//     node file-workout.ts BINARY SEED ROUNDS
const [CREATE, OVERWRITE, READ] = [0, 1, 2]

/** Begins moves without end, and never looks at what comes of them. */
function move(binary: string, folder: string, seed: number): void {
  const { moveFile } = createRequire(import.meta.url)(binary) as Addon
  const next = random(seed)
  const pieces = () => Array.from({ length: 1 + next(4) }, () => new Uint8Array(next(3) === 0 ? 0 : next(50_000)))
  let begun = 0
  const one = async (): Promise<void> => {
    for (;;) {
      const path = join(folder, String(next(20)))
      if (next(20) === 0) globalThis.gc?.() // memory of a move is held by nobody else
      await moveFile([CREATE, OVERWRITE, READ][next(3)]!, next(2) * 2, path, next(2) === 0 ? path : '', ...pieces())
      begun += 1
      if (begun === 50) parentPort!.postMessage('under way')
    }
  }
  for (let lane = 0; lane < 6; lane += 1) void one()
}

/** Begins a read that waits until somebody opens the other end. */
function wait(binary: string, pipe: string): void {
  const { moveFile } = createRequire(import.meta.url)(binary) as Addon
  void moveFile(READ, 0, pipe, '', new Uint8Array(1000))
  parentPort!.postMessage('under way')
}

/** Ends a thread once it says that its moves are under way. @param unblock lets the last of them end. */
async function endWhileMoving(data: unknown[], unblock: () => void): Promise<void> {
  const worker = new Worker(new URL(import.meta.url), { workerData: data })
  await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
  const ended = worker.terminate()
  unblock()
  await ended
}

if (workerData !== null) {
  const [kind, ...rest] = workerData as [string, string, string, number]
  if (kind === 'move') move(...rest)
  else wait(rest[0], rest[1])
} else {
  const [binary, seed, rounds] = process.argv.slice(2) as [string, string, string]
  const folder = mkdtempSync(join(tmpdir(), 'kvtier-files-'))
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe], { env: { ...process.env, LD_PRELOAD: '' } })
  for (let round = 0; round < Number(rounds); round += 1) {
    await endWhileMoving(['move', binary, folder, Number(seed) * 100 + round], () => undefined)
    await endWhileMoving(['wait', binary, pipe], () => {
      closeSync(openSync(pipe, 'w')) // waits for the reader, whose thread is about to end
    })
  }
  rmSync(folder, { recursive: true })
  console.log('done')
}
