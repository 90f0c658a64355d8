import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { isRunning } from '../../../src/native/process-identity.ts'
import { until } from '../../support/until.ts'

function ticksOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
}

it('knows a process from another one that has its number, and from none', () => {
  const startTicks = ticksOf(process.pid)
  expect(isRunning({ pid: process.pid, startTicks })).toBe(true)
  expect(isRunning({ pid: process.pid, startTicks: startTicks + 1 })).toBe(false)
  expect(isRunning({ pid: 4_194_304, startTicks })).toBe(false)
})

it('takes a process for gone that has ended and waits for its parent', async () => {
  // The shell becomes a `sleep` that never asks how its child ended.
  const child = spawn('sh', ['-c', 'sleep 0 & echo $!; exec sleep 600'], { stdio: ['ignore', 'pipe', 'ignore'] })
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  const pid = Number(line.toString())
  try {
    await until('it has ended', () => (readFileSync(`/proc/${pid}/stat`, 'latin1').includes(') Z ') ? true : undefined))
    expect(isRunning({ pid, startTicks: ticksOf(pid) })).toBe(false)
  } finally {
    child.kill('SIGKILL')
  }
})
