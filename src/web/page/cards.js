/** @import { Overview } from '../overview.ts' */
/** @import { History } from './history.js' */
import { byId, setText, tableIn } from './dom.js'
import { LineChart } from './line-chart.js'
import { bytesText, countText, percentText, rateText, timeText } from './number-text.js'

const MINUTE_MS = 60_000

/** @param {number} seconds */
function clockText(seconds) {
  return timeText(seconds * 1000).slice(0, 5)
}

/** The cards that show numbers: hit rate, L1, throughput, reuse and tenants. */
export class Cards {
  #hit = new LineChart(byId('hit-chart'), {
    label: 'Hit rate over the last 15 minutes',
    lines: [
      { name: 'all', colour: 1 },
      { name: 'L0', colour: 2, dash: 'dashed' },
      { name: 'L1', colour: 3 },
      { name: 'L2', colour: 4, dash: 'dotted' },
    ],
    text: percentText,
    xText: clockText,
    x: 'time',
    yMax: 1,
  })
  #l1 = new LineChart(byId('l1-chart'), {
    label: 'Chunks a second and fill over the last 15 minutes',
    lines: [
      { name: 'written', colour: 3 },
      { name: 'evicted', colour: 4, dash: 'dashed' },
      { name: 'fill', colour: 2, dash: 'dotted', isShare: true },
    ],
    text: perSecondText,
    xText: clockText,
    x: 'time',
  })
  #paths = new LineChart(byId('paths-chart'), {
    label: 'Bytes moved a second over the last 15 minutes',
    lines: [
      { name: 'L0 to L1', colour: 2 },
      { name: 'L1 to L0', colour: 5, dash: 'dashed' },
      { name: 'L1 to L2', colour: 3 },
      { name: 'L2 to L1', colour: 4, dash: 'dashed' },
    ],
    text: rateText,
    xText: clockText,
    x: 'time',
  })
  #reuse = new LineChart(byId('reuse-chart'), {
    label: 'Hit rate by size of L1',
    lines: [
      { name: 'estimate', colour: 2 },
      { name: 'present size', colour: 4, isPoint: true },
    ],
    text: percentText,
    xText: bytesText,
    x: 'log2',
  })
  #pathRows = tableIn(byId('paths-table'), 'Throughput by path', [
    { title: 'Path' },
    { title: 'Last minute', isNumber: true },
    { title: 'While busy', isNumber: true },
    { title: 'Since start', isNumber: true },
  ])
  #reuseRows = tableIn(byId('reuse-table'), 'Hit rate by size of L1', [
    { title: 'L1' },
    { title: 'Hit rate', isNumber: true },
  ])
  #tenantRows = tableIn(byId('tenants'), 'Largest tenants', [
    { title: 'Model' },
    { title: 'Salt' },
    { title: 'Asked', isNumber: true },
    { title: 'Hit rate', isNumber: true },
    { title: 'In L1', isNumber: true },
  ])

  /** After a change of colours. */
  redraw() {
    for (const chart of [this.#hit, this.#l1, this.#paths, this.#reuse]) chart.redraw()
  }

  /**
   * @param {Overview} now
   * @param {History} history
   */
  show(now, history) {
    const { times, series } = history
    const minute = history.ratesOver(MINUTE_MS)
    this.#showHits(now, minute.hit)
    this.#hit.set(times, [series.hit, series.hitL0, series.hitL1, series.hitL2])
    this.#showL1(now)
    this.#l1.set(times, [series.written, series.evicted, series.fill])
    this.#paths.set(times, [series.l0l1Store, series.l0l1Load, series.l2Store, series.l2Load])
    this.#showPaths(now, minute)
    this.#showReuse(now)
    this.#showTenants(now)
  }

  /**
   * @param {Overview} now
   * @param {number | null} lastMinute
   */
  #showHits({ tokens }, lastMinute) {
    setText(byId('hit-now'), percentText(lastMinute))
    const share = percentText(tokens.requested > 0 ? tokens.hit / tokens.requested : null)
    const asked = `${countText(tokens.requested)} tokens asked for in ${countText(tokens.lookups)} lookups`
    setText(byId('hit-note'), tokens.lookups > 0 ? `Since start: ${share} of ${asked}.` : 'No lookup yet.')
  }

  /** @param {Overview} now */
  #showL1({ l1 }) {
    const ratio = l1.capacity_bytes > 0 ? l1.usage_bytes / l1.capacity_bytes : 0
    setText(byId('l1-now'), percentText(ratio))
    setText(byId('l1-size'), `in use: ${bytesText(l1.usage_bytes)} of ${bytesText(l1.capacity_bytes)}`)
    const meter = /** @type {HTMLMeterElement} */ (byId('l1-meter'))
    meter.value = ratio
    const late = l1.quarantined_bytes > 0 ? ` ${bytesText(l1.quarantined_bytes)} in quarantine.` : ''
    const counts = `${countText(l1.written_chunks)} chunks written, ${countText(l1.read_chunks)} read`
    setText(byId('l1-note'), `Since start: ${counts}, ${countText(l1.evicted_chunks)} evicted.${late}`)
  }

  /**
   * @param {Overview} now
   * @param {import('./history.js').Rates} minute
   */
  #showPaths({ paths }, minute) {
    /** @type {readonly [string, number | null, { bytes: number, busy_seconds: number }][]} */
    const rows = [
      ['L0 to L1', minute.l0l1Store, paths.l0_l1_store],
      ['L1 to L0', minute.l0l1Load, paths.l0_l1_load],
      ['L1 to L2', minute.l2Store, paths.l2_store],
      ['L2 to L1', minute.l2Load, paths.l2_load],
    ]
    this.#pathRows(
      rows.map(([name, rate, { bytes, busy_seconds: seconds }]) => [
        name,
        rateText(rate),
        rateText(seconds > 0 ? bytes / seconds : null),
        bytesText(bytes),
      ]),
    )
  }

  /** @param {Overview} now */
  #showReuse({ l1, would_hit: wouldHit }) {
    const { points, asked_chunks: asked } = wouldHit
    const sizes = points.map((point) => point.l1_bytes)
    const ratios = points.map((point) => point.ratio)
    const present = sizes.indexOf(l1.capacity_bytes)
    this.#reuse.set(sizes, [ratios, ratios.map((ratio, at) => (at === present ? ratio : null))], present)
    this.#reuseRows(points.map((point) => [bytesText(point.l1_bytes), percentText(point.ratio)]))
    const double = points.find((point) => point.l1_bytes === 2 * l1.capacity_bytes)
    if (present < 0 || double === undefined) {
      setText(byId('reuse-note'), 'No chunk was asked for yet.')
      return
    }
    const text =
      `Of ${countText(asked)} chunks asked for since the start, an L1 of ${bytesText(l1.capacity_bytes)} would have held ` +
      `${percentText(ratios[present] ?? null)}, one of ${bytesText(double.l1_bytes)} ${percentText(double.ratio)}.`
    setText(byId('reuse-note'), text)
  }

  /** @param {Overview} now */
  #showTenants({ tenants, tenants_total: total }) {
    this.#tenantRows(
      tenants.map((one) => [
        one.model,
        one.cache_salt === '' ? '–' : one.cache_salt,
        countText(one.requested_tokens),
        percentText(one.requested_tokens > 0 ? one.hit_tokens / one.requested_tokens : null),
        bytesText(one.l1_usage_bytes),
      ]),
    )
    const more = total - tenants.length
    setText(byId('tenants-note'), total === 0 ? 'None yet.' : more > 0 ? `And ${more} more.` : '')
  }
}

/** @param {number | null} rate */
function perSecondText(rate) {
  return rate === null ? '–' : `${countText(rate)}/s`
}
