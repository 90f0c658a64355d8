const REPLACEMENT = 0xfffd

/**
 * A label value as it is exported: any string of UTF-16 code units becomes well-formed Unicode, and two different
 * strings stay different. A lone surrogate becomes U+FFFD and its four hex digits; so does U+FFFD itself, which
 * keeps the mapping one to one, and U+0000, which ends the input of some parsers. Every other string is left as it is.
 */
export function labelText(value: string): string {
  if (value.isWellFormed() && !value.includes('\ufffd') && !value.includes('\0')) return value
  let text = ''
  for (const symbol of value) {
    const code = symbol.codePointAt(0)!
    const isLone = code >= 0xd800 && code <= 0xdfff
    const isSpelled = isLone || code === REPLACEMENT || code === 0
    text += isSpelled ? `\ufffd${code.toString(16).padStart(4, '0')}` : symbol
  }
  return text
}
