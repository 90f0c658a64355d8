import { type Static, Type } from 'typebox'
import { Value } from 'typebox/value'
import { parse as parseYaml, YAMLParseError } from 'yaml'
import { loadConfig, type ServeConfig } from '../config/load-config.ts'
import { CacheError } from '../core/errors.ts'

const closed = { additionalProperties: false } as const
const Texts = Type.Record(Type.String(), Type.String())
const Port = Type.Integer({ minimum: 1, maximum: 65_535 })
/** A part of Kubernetes' own API, handed on as it is; the cluster checks it. */
const Passed = Type.Record(Type.String(), Type.Unknown())
const Name = Type.String({ pattern: '^[a-z]([a-z0-9-]{0,45}[a-z0-9])?$' })
const SecretKey = Type.Object({ secret: Type.String({ minLength: 1 }), key: Type.String({ minLength: 1 }) }, closed)

/** What an engine definition may say besides options of the engine: how it runs on Kubernetes. */
const CLUSTER_FIELDS = {
  image: Type.String({ minLength: 1 }),
  imagePullPolicy: Type.Optional(Type.Enum(['Always', 'IfNotPresent', 'Never'])),
  kind: Type.Optional(Type.Enum(['Deployment', 'DaemonSet'])),
  replicas: Type.Optional(Type.Integer({ minimum: 0, maximum: 10_000 })),
  runAsUser: Type.Optional(Type.Integer({ minimum: 1, maximum: 2_147_483_647 })),
  resources: Type.Optional(Passed),
  nodeSelector: Type.Optional(Texts),
  tolerations: Type.Optional(Type.Array(Passed)),
  affinity: Type.Optional(Passed),
  /** Of the data directory; without it the data goes with the pod. */
  storage: Type.Optional(
    Type.Object({ size: Type.String({ minLength: 1 }), storageClassName: Type.Optional(Type.String()) }, closed),
  ),
  /** The container of the inference server, which the engine runs beside. */
  inference: Type.Optional(Passed),
  /** The tokens of the HTTP API: a Secret with the key tokens.json. Without it the API stays on loopback. */
  auth: Type.Optional(Type.Object({ tokensSecret: Type.String({ minLength: 1 }) }, closed)),
  /** Environment of the engine out of Secrets, such as the keys of an adapter. */
  secretEnv: Type.Optional(Type.Record(Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]*$' }), SecretKey)),
  alerts: Type.Optional(Type.Object({ enabled: Type.Boolean(), labels: Type.Optional(Texts) }, closed)),
  dashboard: Type.Optional(Type.Object({ enabled: Type.Boolean(), labels: Type.Optional(Texts) }, closed)),
}

const Prometheus = Type.Object(
  {
    enabled: Type.Optional(Type.Boolean()),
    port: Type.Optional(Port),
    /** The bearer token that scrapers must send. */
    token: Type.Optional(SecretKey),
    /** A Secret with tls.crt and tls.key, which make it https. */
    tls: Type.Optional(
      Type.Object(
        {
          secret: Type.String({ minLength: 1 }),
          /** What signed the certificate; without it, ca.crt of the same Secret. */
          ca: Type.Optional(SecretKey),
          /** What the certificate is for; without it, the metrics Service. */
          serverName: Type.Optional(Type.String({ minLength: 1 })),
        },
        closed,
      ),
    ),
    serviceMonitor: Type.Optional(
      Type.Object(
        {
          enabled: Type.Boolean(),
          labels: Type.Optional(Texts),
          interval: Type.Optional(Type.String({ pattern: '^[0-9]+(ms|s|m|h)$' })),
        },
        closed,
      ),
    ),
  },
  closed,
)

const Document = Type.Object(
  {
    engine: Type.Object(
      {
        name: Name,
        namespace: Type.Optional(Name),
        spec: Type.Object({ ...CLUSTER_FIELDS, prometheus: Type.Optional(Prometheus) }),
      },
      closed,
    ),
  },
  closed,
)

type Spec = Static<typeof Document>['engine']['spec']

/** An engine to run on Kubernetes. */
export interface EngineDefinition {
  readonly name: string
  /** Undefined: that of whoever applies the manifests. */
  readonly namespace: string | undefined
  readonly spec: Spec
  /** Options of the engine as its config file has them: every key of the definition that is not Kubernetes'. */
  readonly options: Readonly<Record<string, unknown>>
  /** The same, checked, with defaults. */
  readonly config: ServeConfig
  /** How metrics leave: one path at a time. */
  readonly metrics: 'scrape' | 'push' | 'none'
  readonly warnings: readonly string[]
}

/** Where an engine of a pod listens, beside its metrics. */
export const POD_PORTS = { http: 8080, mp: 5555 } as const

/**
 * Reads an engine definition. Keys of `engine.spec` that Kubernetes has no use for are options of the engine, by the
 * names of its config file, and are checked as those are.
 *
 * @param file its name, for errors.
 * @throws CacheError CONFIG_INVALID, with the path of the field and the reason
 */
export function readEngineDefinition(text: string, file: string): EngineDefinition {
  const document = parseDocument(text, file)
  // Of an unknown key the library tells twice; the one that names it says more.
  const first = Value.Errors(Document, document).find(({ keyword }) => keyword !== 'boolean')
  if (first !== undefined) throw invalid(pathOf(first), REASONS[first.keyword] ?? first.message)
  const { name, namespace, spec } = (document as Static<typeof Document>).engine
  const ownKeys = new Set([...Object.keys(CLUSTER_FIELDS), 'prometheus'])
  const options = Object.fromEntries(Object.entries(spec).filter(([key]) => !ownKeys.has(key)))
  const { options: config, warnings } = checkedOptions(options)
  const isPush = config.push.endpoint !== ''
  const wantsScrape = spec.prometheus?.enabled === true
  if (spec.prometheus?.serviceMonitor?.enabled === true && !wantsScrape) {
    throw invalid('engine.spec.prometheus.serviceMonitor.enabled', 'needs prometheus.enabled: true')
  }
  if (wantsScrape && [POD_PORTS.http, POD_PORTS.mp].some((port) => port === spec.prometheus?.port)) {
    const { http, mp } = POD_PORTS
    throw invalid('engine.spec.prometheus.port', `is taken: the pod has its HTTP API on ${http}, its MP wire on ${mp}`)
  }
  for (const field of ['token', 'tls'] as const) {
    if (spec.prometheus?.[field] === undefined || wantsScrape) continue
    throw invalid(`engine.spec.prometheus.${field}`, 'needs prometheus.enabled: true')
  }
  if (spec.kind === 'DaemonSet' && spec.replicas !== undefined) {
    throw invalid('engine.spec.replicas', 'a DaemonSet runs one engine a node; remove it')
  }
  return {
    name,
    namespace,
    spec,
    options,
    config,
    metrics: isPush ? 'push' : wantsScrape ? 'scrape' : 'none',
    warnings: [
      ...warnings,
      ...(isPush && wantsScrape ? ['otlp-endpoint is set, so metrics are pushed and no Service is made'] : []),
    ],
  }
}

function parseDocument(text: string, file: string): unknown {
  try {
    return parseYaml(text, { strict: true, uniqueKeys: true, maxAliasCount: 100 })
  } catch (error) {
    if (!(error instanceof YAMLParseError) && !(error instanceof ReferenceError)) throw error
    const reason = error.message.split('\n')[0]!.replace(/:$/, '')
    throw new CacheError('CONFIG_INVALID', `${file} is not valid YAML: ${reason}`, { field: file }, error)
  }
}

/** A pod has the memory that it asks for, so that no default may look at this machine. */
function checkedOptions(options: Readonly<Record<string, unknown>>) {
  const l1 = options.l1 as { size?: unknown } | undefined
  if (typeof l1 !== 'object' || l1 === null || l1.size === undefined) {
    throw invalid('engine.spec.l1.size', 'is missing: write the host memory of L1, such as 16GiB')
  }
  for (const key of ['http', 'mp', 'data-dir']) {
    if (options[key] !== undefined) throw invalid(`engine.spec.${key}`, 'is set by the manifests; remove it')
  }
  const machine = {
    availableMemoryBytes: Number.MAX_SAFE_INTEGER,
    freeSharedMemoryBytes: Number.MAX_SAFE_INTEGER,
    cpus: 2,
    workingDirectory: '/',
    hostName: 'pod',
    keptL1Bytes: () => 0,
    freeDiskBytes: () => Number.MAX_SAFE_INTEGER,
  }
  const file = 'engine.spec'
  try {
    return loadConfig({ argv: ['--config', file], env: {}, machine, readFile: () => JSON.stringify(options) })
  } catch (error) {
    if (!(error instanceof CacheError)) throw error
    const message = error.message.replaceAll(' in /engine.spec', '')
    throw new CacheError('CONFIG_INVALID', `engine.spec: ${message}`, { field: `engine.spec.${error.detail?.field}` })
  }
}

const REASONS: Readonly<Record<string, string>> = {
  additionalProperties: 'is not a field of an engine definition',
  required: 'is missing',
}

interface SchemaError {
  readonly keyword: string
  readonly instancePath: string
  readonly params?: object
}

function pathOf({ instancePath, keyword, params }: SchemaError): string {
  const path = instancePath.split('/').filter(Boolean)
  const more = params as { additionalProperties?: string[]; requiredProperties?: string[] } | undefined
  if (keyword === 'required') path.push(more?.requiredProperties?.[0] ?? '')
  if (keyword === 'additionalProperties') path.push(more?.additionalProperties?.[0] ?? '')
  return path.join('.')
}

function invalid(path: string, reason: string): CacheError {
  return new CacheError('CONFIG_INVALID', `${path} ${reason}`, { field: path })
}
