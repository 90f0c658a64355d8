import { readFileSync } from 'node:fs'
import type { CommandCall } from './command.ts'
import { usageError } from './report-error.ts'

/** The bearer token in the file of `--token-file`; undefined without it. @throws CacheError CONFIG_INVALID */
export function bearerOf(call: CommandCall): string | undefined {
  const path = call.options['token-file']
  if (typeof path !== 'string') return undefined
  const token = read(path).trim()
  // A header can carry no more, and fetch says of another one only that something failed.
  if (/^[\x21-\x7e]+$/.test(token)) return token
  throw usageError(`--token-file is "${path}": it must hold one token and nothing else`, '--token-file')
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable'
    throw usageError(`--token-file is "${path}": it cannot be read (${reason})`, '--token-file')
  }
}
