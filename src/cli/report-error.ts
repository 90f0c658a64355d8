import { CacheError } from '../core/errors.ts'
import type { ExitCode } from './command.ts'
import { styled, type Terminal } from './terminal.ts'

/** A wrong command line or configuration, in words that name the option and the fix. Exit code 2. */
export function usageError(message: string, field = ''): CacheError {
  return new CacheError('CONFIG_INVALID', message, field === '' ? {} : { field })
}

/**
 * Prints an error as one line on stderr, and with `--json` as one object on stdout too.
 * An operating error speaks for itself; anything else is a bug, whose stack is shown with DEBUG=kvtier.
 */
export function reportError(error: unknown, terminal: Terminal, isJson: boolean): ExitCode {
  const isOperating = error instanceof CacheError
  const message = oneLine(isOperating ? error.message : `internal error: ${messageOf(error)}`)
  const hint = isOperating || isDebugging() ? '' : ' (DEBUG=kvtier shows where)'
  terminal.log(`${styled('kvtier:', 'red', terminal.hasColour && terminal.isInteractive)} ${message}${hint}`)
  if (isDebugging() && error instanceof Error) terminal.log(error.stack ?? '')
  if (isJson) {
    const code = isOperating ? error.code : 'INTERNAL'
    terminal.out(JSON.stringify({ error: { code, message, ...(isOperating ? { detail: error.detail } : {}) } }))
  }
  return isOperating && isUsage(error) ? 2 : 1
}

/** A trace that cannot be read fails at run time; what the user typed or configured is usage. */
function isUsage(error: CacheError): boolean {
  return error.kind === 'usage' && error.code !== 'TRACE_INVALID'
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function oneLine(text: string): string {
  return text.replace(/\s*[\r\n]+\s*/g, ' ').trim()
}

function isDebugging(): boolean {
  return process.env.DEBUG?.split(',').includes('kvtier') === true
}
