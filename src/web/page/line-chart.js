/** @import uPlot from 'uplot' */
import { element, setText } from './dom.js'
import { percentText } from './number-text.js'

/** The library is a classic script, loaded before. */
const Plot = /** @type {{ uPlot: typeof uPlot }} */ (/** @type {unknown} */ (globalThis)).uPlot

const HEIGHT = 170
const MINUTES = [60, 120, 180, 300, 600]
const DASHES = { solid: [], dashed: [8, 4], dotted: [2, 4] }

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {1 | 2 | 3 | 4 | 5} colour number of a `--series-N` of the style sheet.
 * @property {'solid' | 'dashed' | 'dotted'} [dash] lines differ by more than colour.
 * @property {boolean} [isPoint] drawn as points alone.
 * @property {boolean} [isShare] a share of 1, on a scale of its own at the right.
 */

/**
 * @typedef {object} LineChartOptions
 * @property {string} label for screen readers: the lines are drawn on a canvas.
 * @property {readonly Line[]} lines
 * @property {(value: number | null) => string} text of a value.
 * @property {(x: number) => string} xText of a place.
 * @property {'time' | 'log2'} x
 * @property {number} [yMax] absent: as large as the values need.
 */

/** A uPlot chart with a legend of text that shows the newest values, or those under the pointer. */
export class LineChart {
  #options
  #plot
  #values = /** @type {Element[]} */ ([])
  #swatches = /** @type {Element[]} */ ([])
  #data = /** @type {readonly (readonly (number | null)[])[]} */ ([])
  #ink
  #restAt = -1

  /**
   * @param {HTMLElement} host
   * @param {LineChartOptions} options
   */
  constructor(host, options) {
    this.#options = options
    this.#ink = element('div', { class: 'chart chart-ink', role: 'img', 'aria-label': options.label })
    host.append(this.#ink, this.#legend())
    const empty = /** @type {uPlot.AlignedData} */ ([[], ...options.lines.map(() => [])])
    this.#plot = new Plot(this.#plotOptions(), empty, this.#ink)
    new ResizeObserver(() => this.#resize()).observe(this.#ink)
  }

  /**
   * @param {readonly number[]} xs
   * @param {readonly (readonly (number | null)[])[]} columns one for each line, as long as `xs`.
   * @param {number} [restAt] place whose values the legend shows when nothing is pointed at.
   */
  set(xs, columns, restAt = xs.length - 1) {
    this.#data = columns
    this.#restAt = restAt
    this.#plot.setData(/** @type {uPlot.AlignedData} */ (/** @type {unknown} */ ([xs, ...columns])))
    this.#showValues()
  }

  /** After a change of colours. */
  redraw() {
    this.#plot.redraw()
  }

  #legend() {
    const rows = this.#options.lines.map(({ name, colour, dash = 'solid', isPoint }) => {
      const swatch = element('span', { class: `swatch series-${colour} ${isPoint ? 'dot' : dash}` })
      const value = element('b', { text: '–' })
      this.#swatches.push(swatch)
      this.#values.push(value)
      return element('li', {}, [swatch, document.createTextNode(`${name} `), value])
    })
    return element('ul', { class: 'legend' }, rows)
  }

  #showValues() {
    const { text, label, lines } = this.#options
    const at = this.#plot.cursor.idx
    const texts = this.#data.map((column, line) => {
      const write = lines[line]?.isShare ? percentText : text
      return write(column[at ?? this.#restAt] ?? null)
    })
    this.#values.forEach((value, line) => {
      setText(value, texts[line] ?? '–')
    })
    if (at !== null && at !== undefined) return
    const said = `${label}: ${lines.map(({ name }, line) => `${name} ${texts[line]}`).join(', ')}`
    if (this.#ink.getAttribute('aria-label') !== said) this.#ink.setAttribute('aria-label', said)
  }

  #resize() {
    const width = Math.floor(this.#ink.clientWidth)
    if (width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT })
  }

  /** @returns {uPlot.Options} */
  #plotOptions() {
    const { lines, text, xText, x, yMax } = this.#options
    const axis = {
      stroke: () => getComputedStyle(this.#ink).color,
      grid: { stroke: () => getComputedStyle(this.#ink).borderTopColor, width: 1 },
      ticks: { stroke: () => getComputedStyle(this.#ink).borderTopColor, width: 1, size: 4 },
      font: '12px system-ui, sans-serif',
    }
    return {
      width: 320,
      height: HEIGHT,
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, y: false },
      hooks: { setCursor: [() => this.#showValues()] },
      scales: {
        x:
          x === 'time'
            ? { time: true, range: (_plot, min, max) => timeRange(min, max) }
            : { time: false, distr: 3, log: 2 },
        y: { range: (_plot, _min, max) => [0, yMax ?? (max || 1) * 1.1] },
        share: { range: [0, 1] },
      },
      axes: [
        {
          ...axis,
          ...(x === 'time' && { incrs: MINUTES }),
          space: 70,
          size: 30,
          values: (_plot, splits) => splits.map((at) => (at === null ? '' : xText(at))),
        },
        { ...axis, size: 64, values: (_plot, splits) => splits.map((value) => text(value)) },
        ...(lines.some(({ isShare }) => isShare) ? [shareAxis(axis)] : []),
      ],
      series: [{}, ...lines.map((line, at) => this.#seriesOf(line, at))],
    }
  }

  /**
   * @param {Line} line
   * @param {number} at
   * @returns {uPlot.Series}
   */
  #seriesOf({ dash = 'solid', isPoint = false, isShare = false }, at) {
    const colour = () => getComputedStyle(/** @type {Element} */ (this.#swatches[at])).color
    const points = isPoint ? { show: true, size: 11, fill: colour } : { show: false }
    const scale = isShare ? 'share' : 'y'
    return { scale, stroke: colour, width: isPoint ? 0 : 2, dash: DASHES[dash], spanGaps: false, points }
  }
}

/**
 * The axis at the right.
 *
 * @param {uPlot.Axis} axis
 * @returns {uPlot.Axis}
 */
function shareAxis(axis) {
  const values = (/** @type {uPlot} */ _plot, /** @type {number[]} */ splits) => splits.map((at) => `${at * 100} %`)
  return { ...axis, scale: 'share', side: 1, size: 52, grid: { show: false }, incrs: [0.5], values }
}

/**
 * At least two minutes, so that the first points are no step across the whole chart.
 *
 * @param {number} min
 * @param {number} max
 * @returns {[number, number]}
 */
function timeRange(min, max) {
  return [Math.min(min, max - 120), max]
}
