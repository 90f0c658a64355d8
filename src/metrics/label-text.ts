const REPLACEMENT = 0xfffd

/**
 * A label value as it is exported: any string of UTF-16 code units becomes well-formed Unicode, and two different
 * strings stay different. A lone surrogate becomes U+FFFD and its four hex digits; so does U+FFFD itself, which
 * keeps the mapping one to one. Every other string is left as it is.
 */
export function labelText(value: string): string {
  if (value.isWellFormed() && !value.includes('\ufffd')) return value
  let text = ''
  for (const symbol of value) {
    const code = symbol.codePointAt(0)!
    const isLone = code >= 0xd800 && code <= 0xdfff
    text += isLone || code === REPLACEMENT ? `\ufffd${code.toString(16)}` : symbol
  }
  return text
}
