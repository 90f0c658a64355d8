/** Keys of an adapter whose values are secrets, wherever they stand in what was written. */
const SECRET_KEYS = /((?:password|secret|token|secret-key|session-token)["']?\s*[=:]\s*["']?)[^\s,;"'&]+/gi

/** A text without the passwords in it: of URLs (`redis://user:password@host`), and of keys named like a secret. */
export function redact(text: string): string {
  return text.replace(/(\w:\/\/)[^/?#\s"']*@/g, '$1***@').replace(SECRET_KEYS, '$1***')
}
