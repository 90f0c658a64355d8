import type { Metric } from './define.ts'
import type { Family } from './families.ts'
import type { FamilyVisitor, Series } from './series.ts'

export type TextFormat = 'text' | 'openmetrics'

export const CONTENT_TYPES: Readonly<Record<TextFormat, string>> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

/** Sample lines rendered in one go: a tenth of a millisecond. Longer texts also cost more a line to turn into bytes. */
export const SLICE_LINES = 500

export function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function escapeHelp(text: string, format: TextFormat): string {
  const escaped = text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  return format === 'openmetrics' ? escaped.replaceAll('"', '\\"') : escaped
}

function formatValue(value: number): string {
  if (Number.isFinite(value)) return `${value}`
  return Number.isNaN(value) ? 'NaN' : value > 0 ? '+Inf' : '-Inf'
}

/** OpenMetrics wants bounds in the form of floats: 1.0, not 1. */
function formatBound(bound: number, format: TextFormat): string {
  return format === 'openmetrics' && Number.isInteger(bound) && bound < 1e15 ? `${bound}.0` : `${bound}`
}

function labelled(name: string, series: Series, extra = ''): string {
  const labels = series.labels.map(([label, value]) => `${label}="${escapeLabel(value)}"`)
  if (extra !== '') labels.push(extra)
  return labels.length === 0 ? `${name} ` : `${name}{${labels.join(',')}} `
}

function headOf(metric: Metric, format: TextFormat): string {
  const isOpenCounter = format === 'openmetrics' && metric.type === 'counter'
  const name = isOpenCounter ? metric.name.slice(0, -'_total'.length) : metric.name
  return `# HELP ${name} ${escapeHelp(metric.help, format)}\n# TYPE ${name} ${metric.type}\n`
}

/** Builds the text of one family. What stands before a value is made once for each series and kept in it. */
class FamilyText implements FamilyVisitor {
  text = ''
  readonly #format: TextFormat
  readonly #formatIndex: number
  readonly #metric: Metric
  #isOpened = false

  constructor(metric: Metric, format: TextFormat) {
    this.#metric = metric
    this.#format = format
    this.#formatIndex = format === 'text' ? 0 : 1
  }

  value(series: Series, value: number): void {
    this.#open()
    series.leads[0] ??= [labelled(this.#metric.name, series)]
    this.text += `${series.leads[0][0]!}${formatValue(value)}\n`
  }

  distribution(series: Series, cells: Float64Array): void {
    this.#open()
    series.leads[this.#formatIndex] ??= this.#bucketLeads(series)
    const leads = series.leads[this.#formatIndex]!
    const buckets = cells.length - 1
    let count = 0
    let text = ''
    for (let i = 0; i < buckets; i += 1) {
      count += cells[i]!
      text += `${leads[i]!}${count}\n`
    }
    this.text += `${text}${leads[buckets]!}${formatValue(cells[buckets]!)}\n${leads[buckets + 1]!}${count}\n`
  }

  #open(): void {
    if (this.#isOpened) return
    this.#isOpened = true
    this.text += headOf(this.#metric, this.#format)
  }

  #bucketLeads(series: Series): string[] {
    const { name, bounds } = this.#metric
    const limits = [...bounds.map((bound) => formatBound(bound, this.#format)), '+Inf']
    return [
      ...limits.map((limit) => labelled(`${name}_bucket`, series, `le="${limit}"`)),
      labelled(`${name}_sum`, series),
      labelled(`${name}_count`, series),
    ]
  }
}

/**
 * The exposition of a snapshot in pieces of about `sliceLines` sample lines. A caller that lets other work run
 * between pieces keeps the thread responsive. No closing `# EOF`: `exposition` adds it after all parts.
 */
export function* renderPieces(
  families: readonly Family[],
  format: TextFormat,
  sliceLines = SLICE_LINES,
): Generator<string> {
  let piece = ''
  let lines = 0
  for (const family of families) {
    const { metric } = family
    const linesPerPlace = metric.type === 'histogram' ? metric.bounds.length + 3 : 1
    const writer = new FamilyText(metric, format)
    const places = family.places()
    for (let from = 0; from < places; ) {
      const room = Math.max(1, Math.floor((sliceLines - lines) / linesPerPlace))
      const to = Math.min(places, from + room)
      family.visit(from, to, writer)
      lines += (to - from) * linesPerPlace
      from = to
      piece += writer.text
      writer.text = ''
      if (lines < sliceLines) continue
      yield piece
      piece = ''
      lines = 0
    }
  }
  if (piece !== '') yield piece
}
