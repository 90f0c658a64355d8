import { createServer } from 'node:net'
import { CacheError } from '../core/errors.ts'

/**
 * Tries a port before the slow part of the start, so that a taken one is told at once. The surface itself binds later.
 *
 * @param flag the option that names the port.
 * @throws CacheError PORT_TAKEN
 */
export async function checkPort(flag: string, host: string, port: number): Promise<void> {
  if (port === 0) return
  const server = createServer()
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host, port, exclusive: true }, resolve)
    })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'EADDRINUSE' && code !== 'EACCES') return // told by the surface, in its own words
    const why = code === 'EADDRINUSE' ? `is in use on ${host}` : 'may not be bound by this user'
    throw new CacheError('PORT_TAKEN', `${flag} is ${port}, which ${why}: write another, or 0 for a free one`, {
      field: flag,
    })
  } finally {
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
}
