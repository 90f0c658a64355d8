/** Below the least likely token: what a letter costs that is none. */
const UNKNOWN_PENALTY = 10

interface Node {
  readonly next: Map<number, Node>
  /** Row of the vocabulary; -1 = no token ends here. */
  row: number
}

/** The model of tokenizer.json. */
export interface UnigramModel {
  readonly unk_id?: number | null
  readonly vocab: readonly (readonly [token: string, score: number])[]
  readonly byte_fallback?: boolean
}

/**
 * Unigram as the official library computes it: the likeliest way through a word, sums in the same order, and of two
 * ways of one score the one that was found first. Unknown letters in a row are one token.
 */
export class Unigram {
  readonly #root: Node = { next: new Map(), row: -1 }
  readonly #model: UnigramModel
  readonly #unknown: number
  readonly #unknownScore: number
  readonly #rows: ReadonlyMap<string, number>

  constructor(model: UnigramModel) {
    this.#model = model
    this.#unknown = model.unk_id ?? -1
    const leastScore = model.vocab.reduce((least, [, score]) => Math.min(least, score), Number.POSITIVE_INFINITY)
    this.#unknownScore = leastScore - UNKNOWN_PENALTY
    this.#rows = new Map(model.vocab.map(([token], row) => [token, row]))
    for (const [token, row] of this.#rows) this.#add(token, row)
  }

  /** The tokens of a word, as text. @throws Error for an unknown letter when the model has no token for it */
  tokensOf(word: string): string[] {
    const tokens: string[] = []
    let unknown = ''
    const flush = () => {
      if (unknown !== '') for (const token of this.#unknownTokens(unknown)) tokens.push(token)
      unknown = ''
    }
    for (const { text, isUnknown } of this.#bestPath(word)) {
      if (isUnknown) unknown += text
      else {
        flush()
        tokens.push(text)
      }
    }
    flush()
    return tokens
  }

  #add(token: string, row: number): void {
    let node = this.#root
    for (let at = 0; at < token.length; at += 1) {
      const unit = token.charCodeAt(at)
      let next = node.next.get(unit)
      if (next === undefined) {
        next = { next: new Map(), row: -1 }
        node.next.set(unit, next)
      }
      node = next
    }
    node.row = row
  }

  #bestPath(word: string): { text: string; isUnknown: boolean }[] {
    const { vocab } = this.#model
    const scores = new Float64Array(word.length + 1)
    const starts = new Int32Array(word.length + 1).fill(-1)
    const rows = new Int32Array(word.length + 1)
    const offer = (start: number, end: number, row: number, tokenScore: number) => {
      const score = tokenScore + scores[start]!
      if (starts[end] !== -1 && score <= scores[end]!) return
      scores[end] = score
      starts[end] = start
      rows[end] = row
    }
    for (let start = 0; start < word.length; ) {
      const letter = word.codePointAt(start)! > 0xffff ? 2 : 1
      let hasLetter = false
      let node = this.#root.next.get(word.charCodeAt(start))
      for (let end = start + 1; node !== undefined; end += 1) {
        if (node.row >= 0) offer(start, end, node.row, vocab[node.row]![1])
        if (node.row >= 0 && end - start === letter) hasLetter = true
        node = node.next.get(word.charCodeAt(end))
      }
      if (!hasLetter) offer(start, start + letter, this.#unknown, this.#unknownScore)
      start += letter
    }
    const path: { text: string; isUnknown: boolean }[] = []
    for (let end = word.length; end > 0; end = starts[end]!) {
      path.push({ text: word.slice(starts[end], end), isUnknown: rows[end] === this.#unknown })
    }
    return path.reverse()
  }

  #unknownTokens(text: string): string[] {
    if (this.#rows.has(text)) return [text]
    if (this.#model.byte_fallback === true) {
      const bytes = [...Buffer.from(text)].map((byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`)
      if (bytes.every((byte) => this.#rows.has(byte))) return bytes
    }
    if (this.#unknown < 0) throw new Error('the text has a letter that the model does not know')
    return [text]
  }
}
