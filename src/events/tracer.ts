import type { Clock } from '../core/clock.ts'
import type { CounterTable } from '../core/counters.ts'
import type { RandomWords } from '../core/random-words.ts'
import type { SPAN_FIELDS } from './counters.ts'
import type { SpanKind } from './span-kinds.ts'
import { SPAN_AT, SPAN_OWN_TRACE, SPAN_REMOTE_PARENT, type SpanRing } from './span-ring.ts'
import { CONTEXT_FLAGS, CONTEXT_WORDS, FLAG_SAMPLED, readTraceparent, writeTraceparent } from './trace-context.ts'
import type { TraceRatio } from './trace-ratio.ts'

/** A span that is recorded, or NO_SPAN. Row of the table of begun spans in the low bits, generation above. */
export type Span = number
/** Returned for what is not recorded. Every method takes it, and does nothing. */
export const NO_SPAN: Span = 0
/** In place of a tenant or adapter row. */
export const NO_ROW = -1

export interface TracerParts {
  readonly ring: SpanRing
  readonly clock: Clock
  /** Of traces that begin here. A caller's decision stands above it. */
  readonly ratio: TraceRatio
  readonly ids: RandomWords
  readonly cells: CounterTable<(typeof SPAN_FIELDS)[number]>
}

const ROW_BITS = 12
const ROWS = 2 ** ROW_BITS
const GENERATIONS = 2 ** 18
/** Rows that are looked at for one that can be taken. */
const TRIES = 8
/** A span that is open for longer was left behind: its row is taken. */
const LEFT_OPEN_MS = 900_000

/** Words of a begun span: trace id (4), span id (2), parent id (2). */
const ID_WORDS = 8
const SPAN_ID = 4
const PARENT_ID = 6

/**
 * Records spans on the data thread, without allocating. Whether a trace is recorded is decided at its first span: by
 * the caller where one sent a context, by the ratio where it begins here. All of what follows in it does the same.
 *
 *   begin (root, remote, child): a row in the table of begun spans --> end: a record in the ring; the row stays as it
 *   is, so that children can still begin, until its turn comes round again
 */
export class Tracer {
  readonly #parts: TracerParts | null
  readonly #ids: Uint32Array
  readonly #kinds: (SpanKind | undefined)[] = []
  readonly #flags: Uint8Array
  readonly #isOpen: Uint8Array
  readonly #startMs: Float64Array
  readonly #generation: Uint32Array
  readonly #context = new Uint32Array(CONTEXT_WORDS)
  #next = 0

  private constructor(parts: TracerParts | null) {
    const rows = parts === null ? 0 : ROWS
    this.#parts = parts
    this.#ids = new Uint32Array(rows * ID_WORDS)
    this.#flags = new Uint8Array(rows)
    this.#isOpen = new Uint8Array(rows)
    this.#startMs = new Float64Array(rows)
    this.#generation = new Uint32Array(rows)
    if (rows > 0) this.#kinds = new Array<SpanKind | undefined>(rows).fill(undefined)
  }

  static create(parts: TracerParts): Tracer {
    return new Tracer(parts)
  }

  /** A tracer that records nothing. */
  static off(): Tracer {
    return new Tracer(null)
  }

  /** Begins a trace, if the ratio has it recorded. */
  root(kind: SpanKind): Span {
    return this.#parts === null ? NO_SPAN : this.#root(this.#parts, kind)
  }

  /** Begins the part of a caller's trace that is done here. @param traceparent what is none, or empty: as `root`. */
  remote(kind: SpanKind, traceparent: string | undefined): Span {
    if (this.#parts === null) return NO_SPAN
    const context = this.#context
    if (traceparent === undefined || !readTraceparent(traceparent, context)) return this.#root(this.#parts, kind)
    if ((context[CONTEXT_FLAGS]! & FLAG_SAMPLED) === 0 || this.#parts.ring.isPaused) return NO_SPAN
    return this.#begin(this.#parts, kind, SPAN_REMOTE_PARENT)
  }

  /** Begins a part of a span, ended or not. */
  child(kind: SpanKind, parent: Span): Span {
    if (parent === NO_SPAN || this.#parts === null) return NO_SPAN
    const row = this.#rowOf(parent)
    if (row < 0) return NO_SPAN
    const context = this.#context
    for (let word = 0; word < 6; word += 1) context[word] = this.#ids[row * ID_WORDS + word]!
    return this.#begin(this.#parts, kind, this.#flags[row]! & SPAN_OWN_TRACE)
  }

  /** As `child` of a span that is recorded, else as `root`. */
  childOrRoot(kind: SpanKind, parent: Span): Span {
    return parent === NO_SPAN ? this.root(kind) : this.child(kind, parent)
  }

  /** What makes another service's work a part of a span, ended or not: W3C `traceparent`. Undefined for none. */
  traceparentOf(span: Span): string | undefined {
    if (span === NO_SPAN || this.#parts === null) return undefined
    const row = this.#rowOf(span)
    return row < 0 ? undefined : writeTraceparent(this.#ids, row * ID_WORDS)
  }

  /**
   * Ends a span; idempotent.
   *
   * @param outcome a SPAN_* number.
   * @param a and b, c: by the kind's `numbers`.
   */
  end(
    span: Span,
    outcome: number,
    tenant: number,
    adapter: number,
    chunks: number,
    bytes: number,
    a = 0,
    b = 0,
    c = 0,
  ): void {
    if (span === NO_SPAN || this.#parts === null) return
    const row = this.#rowOf(span)
    if (row < 0 || this.#isOpen[row] === 0) return
    this.#isOpen[row] = 0
    const { ring, cells, clock } = this.#parts
    const at = ring.slot()
    if (at < 0) {
      cells.add(0, 'droppedRing', 1)
      return
    }
    const { records } = ring
    for (let word = 0; word < ID_WORDS; word += 1) records[at + word] = this.#ids[row * ID_WORDS + word]!
    records[at + SPAN_AT.kind] = this.#kinds[row]!.id
    records[at + SPAN_AT.flags] = this.#flags[row]!
    records[at + SPAN_AT.startMs] = this.#startMs[row]!
    records[at + SPAN_AT.endMs] = clock.nowMs()
    records[at + SPAN_AT.tenant] = tenant
    records[at + SPAN_AT.adapter] = adapter
    records[at + SPAN_AT.outcome] = outcome
    records[at + SPAN_AT.chunks] = chunks
    records[at + SPAN_AT.bytes] = bytes
    records[at + SPAN_AT.numbers] = a
    records[at + SPAN_AT.numbers + 1] = b
    records[at + SPAN_AT.numbers + 2] = c
    ring.commit()
    cells.add(0, 'recorded', 1)
  }

  #root(parts: TracerParts, kind: SpanKind): Span {
    const context = this.#context
    parts.ids.take(context, 2, 2)
    if (!parts.ratio.isSampled(context) || parts.ring.isPaused) return NO_SPAN
    parts.ids.take(context, 0, 2)
    if ((context[0]! | context[1]! | context[2]! | context[3]!) === 0) context[0] = 1 // zeros would be no id
    context[4] = 0
    context[5] = 0
    return this.#begin(parts, kind, SPAN_OWN_TRACE)
  }

  /** Takes a row for a span of the trace, and under the parent, that `#context` says. */
  #begin({ ids, clock, cells }: TracerParts, kind: SpanKind, flags: number): Span {
    const row = this.#takeRow()
    if (row < 0) {
      cells.add(0, 'droppedOpen', 1)
      return NO_SPAN
    }
    const context = this.#context
    const at = row * ID_WORDS
    for (let word = 0; word < 4; word += 1) this.#ids[at + word] = context[word]!
    ids.take(this.#ids, at + SPAN_ID, 2)
    if ((this.#ids[at + SPAN_ID]! | this.#ids[at + SPAN_ID + 1]!) === 0) this.#ids[at + SPAN_ID] = 1
    this.#ids[at + PARENT_ID] = context[4]!
    this.#ids[at + PARENT_ID + 1] = context[5]!
    this.#kinds[row] = kind
    this.#flags[row] = flags
    this.#startMs[row] = clock.nowMs()
    this.#isOpen[row] = 1
    const generation = (this.#generation[row]! % (GENERATIONS - 1)) + 1
    this.#generation[row] = generation
    return generation * ROWS + row
  }

  /** The next row in turn whose span has ended, or was left behind; -1 when many are open. */
  #takeRow(): number {
    for (let tried = 0; tried < TRIES; tried += 1) {
      const row = this.#next
      this.#next = (row + 1) % ROWS
      if (this.#isOpen[row] === 0) return row
      const { clock, cells } = this.#parts!
      if (clock.nowMs() - this.#startMs[row]! < LEFT_OPEN_MS) continue
      cells.add(0, 'droppedOpen', 1)
      return row
    }
    return -1
  }

  /** The row of a span that was begun; -1 when its row has another one now. */
  #rowOf(span: Span): number {
    const row = span % ROWS
    return this.#generation[row] === (span - row) / ROWS ? row : -1
  }
}
