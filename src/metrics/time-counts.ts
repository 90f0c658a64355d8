const WORD_BITS = 5
const WORD_TIMES = 1 << WORD_BITS
const TIME_MASK = WORD_TIMES - 1

/**
 * Which of the times 0..capacity-1 are taken, and how many up to one. A bit a time, and over the counts of each 32 of them
 * a Fenwick tree: 12 KB a side for 98,304 times, so that it stays in the caches beside whatever else the thread does.
 *
 * Chunks of a prompt have times side by side, are asked about one after the other, and move to new times side by side. So
 * the tree is walked once a word, not once a time: the count before the word last asked about is kept, and what changes
 * in one word is added to the tree when another word is next.
 */
export class TimeCounts {
  readonly #bits: Int32Array
  readonly #tree: Int32Array // 1-based, by word of bits
  /** The word last asked about, and the times taken before it. */
  #askedWord = 0
  #before = 0
  // The words in which times were last taken and given back, and what the tree lacks of each.
  #takenWord = 0
  #takenOwed = 0
  #givenWord = 0
  #givenOwed = 0

  constructor(capacity: number) {
    const words = Math.ceil(capacity / WORD_TIMES)
    this.#bits = new Int32Array(words)
    this.#tree = new Int32Array(words + 1)
  }

  /** Takes a time that is not taken. */
  take(time: number): void {
    const word = time >>> WORD_BITS
    this.#bits[word] = this.#bits[word]! | (1 << (time & TIME_MASK))
    if (word < this.#askedWord) this.#before += 1
    if (word !== this.#takenWord) {
      this.#add(this.#takenWord, this.#takenOwed)
      this.#takenWord = word
      this.#takenOwed = 0
    }
    this.#takenOwed += 1
  }

  /** Gives back a time that is taken. */
  give(time: number): void {
    const word = time >>> WORD_BITS
    this.#bits[word] = this.#bits[word]! & ~(1 << (time & TIME_MASK))
    if (word < this.#askedWord) this.#before -= 1
    if (word !== this.#givenWord) {
      this.#add(this.#givenWord, this.#givenOwed)
      this.#givenWord = word
      this.#givenOwed = 0
    }
    this.#givenOwed -= 1
  }

  /** Times taken up to this one, itself included. */
  upTo(time: number): number {
    const word = time >>> WORD_BITS
    if (word !== this.#askedWord) this.#ask(word)
    return this.#before + ones(this.#bits[word]! & (-1 >>> (TIME_MASK - (time & TIME_MASK))))
  }

  /** Takes the times 0..count-1, and no others. */
  takeFirst(count: number): void {
    const full = count >>> WORD_BITS
    this.#bits.fill(0).fill(-1, 0, full)
    if ((count & TIME_MASK) !== 0) this.#bits[full] = (1 << (count & TIME_MASK)) - 1
    const tree = this.#tree
    tree.fill(0)
    for (let node = 1; node < tree.length; node += 1) {
      tree[node] = tree[node]! + ones(this.#bits[node - 1]!)
      const parent = node + (node & -node)
      if (parent < tree.length) tree[parent] = tree[parent]! + tree[node]!
    }
    this.#takenOwed = 0
    this.#givenOwed = 0
    this.#ask(0)
  }

  #ask(word: number): void {
    const tree = this.#tree
    let count = 0
    for (let node = word; node > 0; node &= node - 1) count += tree[node]!
    if (this.#takenWord < word) count += this.#takenOwed
    if (this.#givenWord < word) count += this.#givenOwed
    this.#askedWord = word
    this.#before = count
  }

  #add(word: number, count: number): void {
    if (count === 0) return
    const tree = this.#tree
    for (let node = word + 1; node < tree.length; node += node & -node) tree[node] = tree[node]! + count
  }
}

/** Bits that are set. */
function ones(word: number): number {
  const pairs = word - ((word >>> 1) & 0x55555555)
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333)
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24
}
