import type { EngineDefinition } from '../engine-definition.ts'

// Whole folders are mounted, not single files: Kubernetes then renews them, and the engine reads them again.
const TOKEN_DIR = '/etc/kvtier-scrape-token'
const TLS_DIR = '/etc/kvtier-scrape-tls'
/** For the group of the pod to read. */
const MODE = 0o440

/** The options of `GET /metrics` that say where its token and certificate are. */
export function scrapeOptions({ spec }: EngineDefinition): Record<string, string> {
  const { token, tls } = spec.prometheus ?? {}
  return {
    ...(token === undefined ? {} : { 'token-file': `${TOKEN_DIR}/token` }),
    ...(tls === undefined ? {} : { 'cert-file': `${TLS_DIR}/tls.crt`, 'key-file': `${TLS_DIR}/tls.key` }),
  }
}

export function scrapeMounts(definition: EngineDefinition): object[] {
  const paths: Readonly<Record<string, string>> = { 'scrape-token': TOKEN_DIR, 'scrape-tls': TLS_DIR }
  return scrapeVolumes(definition).map(({ name }) => ({ name, mountPath: paths[name], readOnly: true }))
}

/** The Secrets of the scrape, for the engine. None where metrics are pushed. */
export function scrapeVolumes({
  spec,
  metrics,
}: EngineDefinition): { readonly name: string; readonly secret: object }[] {
  const { token, tls } = spec.prometheus ?? {}
  if (metrics !== 'scrape') return []
  const volume = (name: string, secretName: string, items: readonly (readonly [key: string, path: string])[]) => {
    return { name, secret: { secretName, defaultMode: MODE, items: items.map(([key, path]) => ({ key, path })) } }
  }
  const pair = [
    ['tls.crt', 'tls.crt'],
    ['tls.key', 'tls.key'],
  ] as const
  return [
    ...(token === undefined ? [] : [volume('scrape-token', token.secret, [[token.key, 'token']])]),
    ...(tls === undefined ? [] : [volume('scrape-tls', tls.secret, pair)]),
  ]
}

/** What the scraper needs for the same, as fields of a ServiceMonitor's endpoint. */
export function scrapeEndpoint({ name, namespace, spec }: EngineDefinition): object {
  const { token, tls } = spec.prometheus ?? {}
  const service = `${name}-metrics${namespace === undefined ? '' : `.${namespace}.svc`}`
  const ca = tls?.ca ?? { secret: tls?.secret, key: 'ca.crt' }
  return {
    ...(tls === undefined ? {} : { scheme: 'https' }),
    ...(token === undefined
      ? {}
      : { authorization: { type: 'Bearer', credentials: { name: token.secret, key: token.key } } }),
    ...(tls === undefined
      ? {}
      : { tlsConfig: { ca: { secret: { name: ca.secret, key: ca.key } }, serverName: tls.serverName ?? service } }),
  }
}
