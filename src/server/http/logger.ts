import { writeSync } from 'node:fs'
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

/** How often, and how long each time, a line waits for the reader of a full pipe before it is dropped. */
const TRIES = 20
const WAIT_MS = 5

/**
 * Standard error. An engine goes on without its log: a line that cannot be written, for a full disk or a reader that is
 * gone, is dropped. pino's own destination throws then to whoever says something, and waits for room without end.
 */
const standardError: DestinationStream = {
  write(line) {
    const bytes = Buffer.from(line)
    let written = 0
    for (let tries = 0; written < bytes.length && tries < TRIES; tries += 1) {
      try {
        written += writeSync(2, bytes, written)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, WAIT_MS)
      }
    }
  },
}

/** The log of one thread: JSON lines, on stderr by default, with secrets left out. */
export function createLogger(level: string, destination: DestinationStream = standardError): Logger {
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
