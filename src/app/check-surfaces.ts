import { createServer } from 'node:net'
import type { ServeConfig } from '../config/load-config.ts'
import type { Clock } from '../core/clock.ts'
import { bindError } from '../server/bind-error.ts'
import { checkBindHost } from '../server/http/host-check.ts'
import { TokenStore } from '../server/http/token-store.ts'
import { openScrapeFiles } from '../server/metrics/scrape-files.ts'

/**
 * Tries the addresses of all surfaces before the slow part of the start, so that a wrong one is told at once, in one
 * line. The surfaces themselves bind later.
 *
 * @throws CacheError PORT_TAKEN, CONFIG_INVALID
 */
export async function checkSurfaces(config: ServeConfig, clock: Clock): Promise<void> {
  const { general, http, mp, prometheus, auth } = config
  const tokens = new TokenStore({ dataDir: general.dataDir, clock, given: auth, onError: () => {} })
  checkBindHost({ bindHost: http.host, isOpen: http.withoutTokens, allowedHosts: [] }, tokens)
  if (prometheus.enabled) openScrapeFiles(prometheus, clock, () => {})
  await tryToBind('http', http.host, http.port)
  await tryToBind('mp', mp.host, mp.port)
  if (prometheus.enabled) await tryToBind('prometheus', prometheus.host, prometheus.port)
}

async function tryToBind(surface: string, host: string, port: number): Promise<void> {
  const server = createServer()
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ host, port, exclusive: true }, resolve)
    })
  } catch (error) {
    throw bindError(surface, host, port, error)
  } finally {
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
}
