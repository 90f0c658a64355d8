import { expect, it } from 'vitest'
import { ProgressBar, progressLine } from '../../../src/cli/progress-bar.ts'
import { ManualClock } from '../../../src/core/clock.ts'
import { CapturedTerminal } from '../../support/captured-terminal.ts'

it('draws share, rate and time left over itself, and wipes the line', () => {
  const terminal = new CapturedTerminal({ isInteractive: true })
  const clock = new ManualClock()
  const bar = new ProgressBar(terminal, clock, 'replay')
  clock.advance(2000)
  bar.update(0.5, 3_000_000, 'refs')
  expect(terminal.stderr).toBe('\rreplay [============            ] 50 %  1.50M refs/s  2 s left\x1b[K')
  bar.finish()
  expect(terminal.stderr.endsWith('\r\x1b[K')).toBe(true)
})

it('redraws at most ten times a second', () => {
  const terminal = new CapturedTerminal({ isInteractive: true })
  const clock = new ManualClock()
  const bar = new ProgressBar(terminal, clock, 'replay')
  for (let step = 0; step < 1000; step += 1) {
    clock.advance(1)
    bar.update(step / 1000, step, 'refs')
  }
  expect(terminal.stderr.split('\r').length - 1).toBe(10)
})

it('writes nothing where stderr is no terminal', () => {
  const terminal = new CapturedTerminal()
  const bar = new ProgressBar(terminal, new ManualClock(), 'replay')
  bar.update(0.5, 1, 'refs')
  bar.finish()
  expect(terminal.stderr).toBe('')
})

it('shows no rate and no time left before there is one', () => {
  expect(progressLine('replay', 0, 0, 'refs', 0)).toBe('replay [                        ] 0 %')
})
