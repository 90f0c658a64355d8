import type { Clock } from '../core/clock.ts'
import { shortDuration, shortNumber } from './short-texts.ts'
import type { Terminal } from './terminal.ts'

const REDRAW_MS = 100
const BAR_CELLS = 24

/**
 * A line on stderr that is drawn over itself: share done, rate and time left. Silent where stderr is no terminal.
 */
export class ProgressBar {
  readonly #terminal: Terminal
  readonly #clock: Clock
  readonly #label: string
  readonly #startMs: number
  #drawnMs = Number.NEGATIVE_INFINITY
  #isDrawn = false

  constructor(terminal: Terminal, clock: Clock, label: string) {
    this.#terminal = terminal
    this.#clock = clock
    this.#label = label
    this.#startMs = clock.nowMs()
  }

  /**
   * @param ratio share done, 0..1.
   * @param items things done so far, for the rate.
   */
  update(ratio: number, items: number, unit: string): void {
    const nowMs = this.#clock.nowMs()
    if (!this.#terminal.isInteractive || nowMs - this.#drawnMs < REDRAW_MS) return
    this.#drawnMs = nowMs
    this.#isDrawn = true
    const seconds = (nowMs - this.#startMs) / 1000
    this.#terminal.raw(`\r${progressLine(this.#label, ratio, items, unit, seconds)}\x1b[K`)
  }

  /** Wipes the line. */
  finish(): void {
    if (this.#isDrawn) this.#terminal.raw('\r\x1b[K')
    this.#isDrawn = false
  }
}

/** `replay [=====>      ] 42 %  1.2M refs/s  3 s left` */
export function progressLine(label: string, ratio: number, items: number, unit: string, seconds: number): string {
  const share = Math.min(1, Math.max(0, ratio))
  const filled = Math.round(share * BAR_CELLS)
  const bar = '='.repeat(filled).padEnd(BAR_CELLS, ' ')
  const rate = seconds > 0 ? `${shortNumber(items / seconds)} ${unit}/s` : ''
  const left = share > 0 && seconds > 0.5 ? `${shortDuration((seconds * (1 - share)) / share)} left` : ''
  return [`${label} [${bar}] ${Math.floor(share * 100)} %`, rate, left].filter((part) => part !== '').join('  ')
}
