const FIRST_BYTES = 64 * 1024

/** Texts laid end to end in one buffer that grows: what stands before the values of an exposition, as bytes. */
export class TextStore {
  bytes = Buffer.allocUnsafe(FIRST_BYTES)
  #used = 0

  /** @returns where each text starts, and where the last one ends: n + 1 offsets into `bytes`. */
  add(texts: readonly string[]): Uint32Array {
    const ends = new Uint32Array(texts.length + 1)
    ends[0] = this.#used
    for (const [i, text] of texts.entries()) {
      this.#ensureRoom(Buffer.byteLength(text))
      this.#used += this.bytes.write(text, this.#used)
      ends[i + 1] = this.#used
    }
    return ends
  }

  #ensureRoom(bytes: number): void {
    if (this.#used + bytes <= this.bytes.length) return
    const larger = Buffer.allocUnsafe(Math.max(this.bytes.length * 2, this.#used + bytes))
    this.bytes.copy(larger, 0, 0, this.#used)
    this.bytes = larger
  }
}

/** One label set of one metric. The same object in every snapshot, so that exporters can keep what they made of it. */
export class Series {
  /** Names and exportable values, in the order of the metric's labels. */
  readonly labels: readonly (readonly [name: string, value: string])[]
  /** Where this series keeps its texts. */
  readonly texts: TextStore
  /** For each format of the text writer, where in `texts` the lead of each sample line lies. */
  readonly leads: (Uint32Array | undefined)[] = []
  /** The labels as a mapping, made by the push exporter when it first meets the series. */
  attributes: Readonly<Record<string, string>> | undefined

  constructor(labels: readonly (readonly [string, string])[], texts: TextStore) {
    this.labels = labels
    this.texts = texts
  }
}

/** Told the series of a family. */
export interface FamilyVisitor {
  value(series: Series, value: number): void
  /** @param cells bucket counts, not cumulative, then the sum. Valid during the call. */
  distribution(series: Series, cells: Float64Array): void
}
