import { CONTEXT_FLAGS, CONTEXT_WORDS, FLAG_SAMPLED, readTraceparent } from '../../events/trace-context.ts'

/** Traces whose state is remembered until their spans are pushed. */
const TRACES_MAX = 4096
/** Longest state that is passed on: what W3C Trace Context asks for at least. */
const STATE_LENGTH_MAX = 512
const PRINTABLE = /^[\x20-\x7e]+$/

/** The `tracestate` that came with each trace, to be passed on with its spans: it does not fit through the ring. */
export class TraceStates {
  readonly #states = new Map<string, string>()
  readonly #words = new Uint32Array(CONTEXT_WORDS)

  /** Remembers the state of a recorded trace. What is not as it must be is as if it were absent. */
  note(traceparent: string, state: string): void {
    if (state === '' || state.length > STATE_LENGTH_MAX || !PRINTABLE.test(state)) return
    if (!readTraceparent(traceparent, this.#words) || (this.#words[CONTEXT_FLAGS]! & FLAG_SAMPLED) === 0) return
    const id = traceparent.slice(3, 35)
    this.#states.delete(id)
    this.#states.set(id, state)
    if (this.#states.size > TRACES_MAX) this.#states.delete(this.#states.keys().next().value!)
  }

  /** @param traceId 32 hexadecimal digits. */
  of(traceId: string): string | undefined {
    return this.#states.get(traceId)
  }
}
