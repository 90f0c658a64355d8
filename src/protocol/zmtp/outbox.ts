/** What a socket has of `Writable`. */
export interface Sink {
  readonly writableNeedDrain: boolean
  write(bytes: Uint8Array): boolean
  cork(): void
  uncork(): void
}

export interface OutboxLimits {
  /** Messages that wait at most. */
  readonly messages: number
  /** Their bytes at most; one may always wait. */
  readonly bytes: number
}

/** Pieces up to this length are joined into one before they are written. */
const JOINED_BYTES_MAX = 16 * 1024
/** Gathered messages are written once they are so long. */
const GATHERED_BYTES_MAX = 256 * 1024

/**
 * Messages on their way to a socket. One goes out at once, unless the socket has not taken those before, or more are
 * gathered; what waits goes in one write. Bounded: what does not fit is refused.
 */
export class Outbox {
  readonly #limits: OutboxLimits
  #sink: Sink | null
  #waiting: Uint8Array[] = []
  #messages = 0
  #bytes = 0
  #isGathering = false

  /** @param sink null = there is none yet. */
  constructor(limits: OutboxLimits, sink: Sink | null) {
    this.#limits = limits
    this.#sink = sink
  }

  /** While true, messages wait for each other. Then they go together. */
  gather(isGathering: boolean): void {
    this.#isGathering = isGathering
    if (!isGathering) this.flush()
  }

  /** Another socket, or none: what waits stays. */
  attach(sink: Sink | null): void {
    this.#sink = sink
    this.flush()
  }

  /** @param pieces of one message; left alone from now on. @returns false when it is lost. */
  send(pieces: readonly Uint8Array[]): boolean {
    const sink = this.#sink
    if (this.#messages === 0 && !this.#isGathering && sink !== null && !sink.writableNeedDrain) {
      if (pieces.length === 1) sink.write(pieces[0]!)
      else write(sink, pieces)
      return true
    }
    let bytes = 0
    for (const { length } of pieces) bytes += length
    const { messages, bytes: bytesMax } = this.#limits
    const isFull = this.#messages >= messages || (this.#messages > 0 && this.#bytes + bytes > bytesMax)
    if (isFull) return false
    for (const piece of pieces) this.#waiting.push(piece)
    this.#messages += 1
    this.#bytes += bytes
    if (this.#bytes > GATHERED_BYTES_MAX) this.flush()
    return true
  }

  /** Writes what waits, if the socket takes it. To be called when it does again. */
  flush(): void {
    const sink = this.#sink
    if (this.#messages === 0 || sink === null || sink.writableNeedDrain) return
    const pieces = this.#waiting
    this.#waiting = []
    this.#messages = 0
    this.#bytes = 0
    write(sink, joined(pieces))
  }
}

function write(sink: Sink, pieces: readonly Uint8Array[]): void {
  sink.cork()
  for (const piece of pieces) sink.write(piece)
  sink.uncork()
}

/** Runs of short pieces as one. */
function joined(pieces: readonly Uint8Array[]): readonly Uint8Array[] {
  if (pieces.length === 1) return pieces
  const result: Uint8Array[] = []
  for (let from = 0; from < pieces.length; ) {
    let to = from
    while (to < pieces.length && pieces[to]!.length <= JOINED_BYTES_MAX) to += 1
    if (to - from > 1) result.push(Buffer.concat(pieces.slice(from, to)))
    else result.push(pieces[from]!)
    from = Math.max(to, from + 1)
  }
  return result
}
