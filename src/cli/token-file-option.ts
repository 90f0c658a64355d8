import { readFileSync } from 'node:fs'
import type { CommandCall, OptionSpec } from './command.ts'
import { usageError } from './report-error.ts'

/** `--token-file` of the commands that ask a server. */
export const TOKEN_FILE_OPTION: OptionSpec = {
  name: 'token-file',
  value: 'FILE',
  help: 'File that holds a bearer token.',
}

/** A header can carry no more, and fetch says of another one only that something failed. */
const ONE_TOKEN = /^[\x21-\x7e]+$/

/** The token in `--token-file`; undefined without it. @throws CacheError CONFIG_INVALID */
export function tokenOf(call: CommandCall): string | undefined {
  const path = call.options[TOKEN_FILE_OPTION.name]
  if (typeof path !== 'string') return undefined
  const token = readToken(path)
  if (ONE_TOKEN.test(token)) return token
  throw usageError(`--token-file is "${path}": it must hold one token and nothing else`, '--token-file')
}

function readToken(path: string): string {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'unreadable'
    throw usageError(`--token-file is "${path}": it cannot be read (${reason})`, '--token-file')
  }
}
