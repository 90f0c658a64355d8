import { type DestinationStream, type Logger, pino } from 'pino'

// What a secret looks like wherever it stands in a line: in the text of an error, in a URL, in a copied header.
const SECRETS: readonly (readonly [form: RegExp, kept: string])[] = [
  [/\bkvt_[\w-]{16,}/g, 'kvt_***'],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]{4,}/gi, '$1 ***'],
  [/(\w:\/\/)[^/?#\s"'@]*@/g, '$1***@'],
  [/((?:password|passwd|secret|token|api[-_]?key|authorization)\\?["']\s*:\s*\\?["'])[^"'\\]+/gi, '$1***'],
  [/((?:password|passwd|secret|token|api[-_]?key)=)[^\s,;"'&\\]+/gi, '$1***'],
]

/** A line without the secrets in it. */
export function withoutSecrets(line: string): string {
  return SECRETS.reduce((text, [form, kept]) => text.replace(form, kept), line)
}

/** The log of one thread: JSON lines, on stderr by default, with secrets left out. */
export function createLogger(level: string, destination: DestinationStream = pino.destination(2)): Logger {
  return pino(
    {
      level,
      base: { pid: process.pid },
      redact: {
        paths: ['req.headers.authorization', 'headers.authorization', 'authorization', 'token'],
        censor: '***',
      },
      hooks: { streamWrite: withoutSecrets },
    },
    destination,
  )
}
