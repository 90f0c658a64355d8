/** A token that stands in a text as it is, as tokenizer.json has it. */
export interface AddedToken {
  readonly id: number
  readonly content: string
  readonly single_word?: boolean
  readonly lstrip?: boolean
  readonly rstrip?: boolean
  readonly normalized?: boolean
  readonly special?: boolean
}

/** A part of a text: a token as it was written, or what stands between tokens. */
export interface Section {
  readonly text: string
  readonly token: AddedToken | null
}

interface Node {
  readonly next: Map<number, Node>
  token: AddedToken | null
}

/** Finds tokens in texts: the leftmost, and of those the longest. */
export class AddedTokens {
  readonly #root: Node = { next: new Map(), token: null }

  /** @param written how a token is written in the texts. */
  constructor(tokens: readonly AddedToken[], written: (content: string) => string) {
    for (const token of tokens) {
      let node = this.#root
      const content = written(token.content)
      for (let at = 0; at < content.length; at += 1) node = nextOf(node, content.charCodeAt(at))
      if (content !== '') node.token = token
    }
  }

  split(text: string): Section[] {
    const sections: Section[] = []
    let end = 0
    for (let at = 0; at < text.length; ) {
      const found = this.#longestAt(text, at)
      if (found === null) {
        at += 1
        continue
      }
      const before = text.slice(end, at)
      const kept = found.token.lstrip === true ? before.replace(/\p{White_Space}+$/u, '') : before
      if (kept !== '') sections.push({ text: kept, token: null })
      at += found.length
      if (found.token.rstrip === true) at += /^\p{White_Space}*/u.exec(text.slice(at))![0].length
      sections.push({ text: text.slice(end + kept.length, at), token: found.token })
      end = at
    }
    if (end < text.length) sections.push({ text: text.slice(end), token: null })
    return sections
  }

  #longestAt(text: string, start: number): { readonly token: AddedToken; readonly length: number } | null {
    let found: { token: AddedToken; length: number } | null = null
    let node = this.#root.next.get(text.charCodeAt(start))
    for (let at = start + 1; node !== undefined; at += 1) {
      if (node.token !== null) found = { token: node.token, length: at - start }
      node = node.next.get(text.charCodeAt(at))
    }
    return found
  }
}

function nextOf(node: Node, unit: number): Node {
  let next = node.next.get(unit)
  if (next === undefined) {
    next = { next: new Map(), token: null }
    node.next.set(unit, next)
  }
  return next
}
