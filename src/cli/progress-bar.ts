import type { Clock } from '../core/clock.ts'
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

/** 1234567 as `1.23M`. */
export function shortNumber(value: number): string {
  for (const [size, suffix] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const) {
    if (value >= size) return `${(value / size).toPrecision(3)}${suffix}`
  }
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3)
}

/** Seconds as `3 s`, `2 min 5 s` or `1 h 4 min`. */
export function shortDuration(seconds: number): string {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}
