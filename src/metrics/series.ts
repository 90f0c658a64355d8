/** One label set of one metric. The same object in every snapshot, so that exporters can keep what they made of it. */
export class Series {
  /** Names and exportable values, in the order of the metric's labels. */
  readonly labels: readonly (readonly [name: string, value: string])[]
  /** Text before the value of each sample line, kept by the text writer: one list for each of its formats. */
  readonly leads: (readonly string[] | undefined)[] = []

  constructor(labels: readonly (readonly [string, string])[]) {
    this.labels = labels
  }
}

/** Told the series of a family. */
export interface FamilyVisitor {
  value(series: Series, value: number): void
  /** @param cells bucket counts, not cumulative, then the sum. Valid during the call. */
  distribution(series: Series, cells: Float64Array): void
}
