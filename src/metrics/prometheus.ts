import { ByteText } from './byte-text.ts'
import type { Metric } from './define.ts'
import type { Family } from './families.ts'
import type { FamilyVisitor, Series } from './series.ts'
import { TextBlocks } from './text-blocks.ts'

export type TextFormat = 'text' | 'openmetrics'

export const CONTENT_TYPES: Readonly<Record<TextFormat, string>> = {
  text: 'text/plain; version=0.0.4; charset=utf-8',
  openmetrics: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}

/** Sample lines rendered in one go: about a quarter of a millisecond. */
export const SLICE_LINES = 2_000

export function escapeLabel(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}

function escapeHelp(text: string, format: TextFormat): string {
  const escaped = text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n')
  return format === 'openmetrics' ? escaped.replaceAll('"', '\\"') : escaped
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

/** Writes the series of one family. What stands before a value is made once for each series and kept in it. */
class FamilyWriter implements FamilyVisitor {
  readonly #metric: Metric
  readonly #format: TextFormat
  /** Place of the format in `Series.leads`. Values without buckets read the same in both. */
  readonly #bucketFormat: number
  readonly #text: ByteText
  #isOpened = false

  constructor(metric: Metric, format: TextFormat, text: ByteText) {
    this.#metric = metric
    this.#format = format
    this.#bucketFormat = format === 'text' ? 0 : 1
    this.#text = text
  }

  value(series: Series, value: number): void {
    this.#open()
    series.leads[0] ??= series.texts.add([labelled(this.#metric.name, series)])
    const leads = series.leads[0]!
    this.#text.line(series.texts.bytes, leads[0]!, leads[1]!, value)
  }

  distribution(series: Series, cells: Float64Array): void {
    this.#open()
    series.leads[this.#bucketFormat] ??= series.texts.add(this.#bucketLeads(series))
    const leads = series.leads[this.#bucketFormat]!
    const { bytes } = series.texts
    const buckets = cells.length - 1
    let count = 0
    for (let i = 0; i < buckets; i += 1) {
      count += cells[i]!
      this.#text.line(bytes, leads[i]!, leads[i + 1]!, count)
    }
    this.#text.line(bytes, leads[buckets]!, leads[buckets + 1]!, cells[buckets]!)
    this.#text.line(bytes, leads[buckets + 1]!, leads[buckets + 2]!, count)
  }

  #open(): void {
    if (this.#isOpened) return
    this.#isOpened = true
    this.#text.text(headOf(this.#metric, this.#format))
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
 * The exposition of a snapshot in UTF-8, in pieces of about `sliceLines` sample lines. A caller that lets other work
 * run between pieces keeps the thread responsive. They lie in `blocks`. No closing `# EOF`: `exposition.ts` adds it after all parts.
 */
export function* renderPieces(
  families: readonly Family[],
  format: TextFormat,
  sliceLines = SLICE_LINES,
  blocks = new TextBlocks(),
): Generator<Buffer> {
  const text = new ByteText(blocks)
  let lines = 0
  for (const family of families) {
    const { metric } = family
    const linesPerPlace = metric.type === 'histogram' ? metric.bounds.length + 3 : 1
    const writer = new FamilyWriter(metric, format, text)
    const places = family.places()
    for (let from = 0; from < places; ) {
      const room = Math.max(1, Math.floor((sliceLines - lines) / linesPerPlace))
      const to = Math.min(places, from + room)
      family.visit(from, to, writer)
      lines += (to - from) * linesPerPlace
      from = to
      if (lines < sliceLines) continue
      yield* text.take()
      lines = 0
    }
  }
  yield* text.take()
}
