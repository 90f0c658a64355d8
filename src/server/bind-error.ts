import { CacheError } from '../core/errors.ts'

/**
 * Why a surface cannot listen, in words that name the option and the fix.
 *
 * @param surface first word of its flags: `http` for --http-host and --http-port.
 * @returns CacheError PORT_TAKEN or CONFIG_INVALID.
 */
export function bindError(surface: string, host: string, port: number, error: unknown): CacheError {
  const portFlag = `--${surface}-port`
  const hostFlag = `--${surface}-host`
  const reason = (error as NodeJS.ErrnoException).code ?? (error instanceof Error ? error.message : String(error))
  if (reason === 'EADDRINUSE') {
    const message = `${portFlag} is ${port}, which is in use on ${host}: write another, or 0 for a free one`
    return new CacheError('PORT_TAKEN', message, { field: portFlag }, error)
  }
  if (reason === 'EACCES') {
    const message = `${portFlag} is ${port}, which this user may not bind: write one above 1023, or 0 for a free one`
    return new CacheError('PORT_TAKEN', message, { field: portFlag }, error)
  }
  const isForeign = reason === 'EADDRNOTAVAIL' || reason === 'ENOTFOUND' || reason === 'EAI_AGAIN'
  const why = isForeign ? 'which is no address of this machine' : `which cannot be listened on (${reason})`
  const message = `${hostFlag} is "${host}", ${why}: write 127.0.0.1 or 0.0.0.0`
  return new CacheError('CONFIG_INVALID', message, { field: hostFlag }, error)
}
