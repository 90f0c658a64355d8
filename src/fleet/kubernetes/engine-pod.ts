import { type EngineDefinition, POD_PORTS } from '../engine-definition.ts'
import { type Manifest, metadata, selectorLabels } from './names.ts'
import { scrapeMounts, scrapeOptions, scrapeVolumes } from './scrape-secrets.ts'

const MIB = 1024 ** 2
/** Bytes of the L1 index for each chunk and each shard of it, with what rounding adds. */
const INDEX_ENTRY_BYTES = 140
/** Heap, code and buffers of the process beside L1. */
const PROCESS_MIB = 2048
const USER = 10_001
const DATA_DIR = '/var/lib/kvtier'
const CONFIG_DIR = '/etc/kvtier'

/** Mebibytes of the memory-backed volume: L1, and its index beside it. */
export function sharedMemoryMib({ config }: EngineDefinition): number {
  const { capacityBytes, indexCapacityChunks } = config.l1
  return Math.ceil((capacityBytes * 1.01 + indexCapacityChunks * INDEX_ENTRY_BYTES) / MIB) + 64
}

/** The options of the engine as its config file: those of the definition, and what the pod decides. */
export function engineConfig(definition: EngineDefinition): Record<string, unknown> {
  const { options, spec, metrics } = definition
  const port = spec.prometheus?.port ?? 9090
  return {
    'data-dir': DATA_DIR,
    http: { host: spec.auth === undefined ? '127.0.0.1' : '0.0.0.0', port: POD_PORTS.http },
    mp: { host: '127.0.0.1', port: POD_PORTS.mp },
    ...(metrics === 'push'
      ? {}
      : { prometheus: { enabled: metrics === 'scrape', port, ...scrapeOptions(definition) } }),
    ...options,
  }
}

/** The Deployment or DaemonSet of an engine: a sidecar of the inference server where one is given. */
export function workload(definition: EngineDefinition, configText: string): Manifest {
  const { name, spec } = definition
  const kind = spec.kind ?? 'Deployment'
  const labels = selectorLabels(name)
  return {
    apiVersion: 'apps/v1',
    kind,
    metadata: metadata(definition),
    spec: {
      ...(kind === 'Deployment' ? { replicas: spec.replicas ?? 1 } : {}),
      selector: { matchLabels: labels },
      template: {
        metadata: {
          labels: metadata(definition).labels,
          annotations: { 'kvtier/config-hash': configHash(configText) },
        },
        spec: podSpec(definition),
      },
    },
  }
}

function podSpec(definition: EngineDefinition): Record<string, unknown> {
  const { spec } = definition
  const isNode = spec.kind === 'DaemonSet'
  const engine = engineContainer(definition)
  const { inference } = spec
  const user = spec.runAsUser ?? USER
  return {
    // The engine starts before the inference server, and ends after it.
    ...(inference === undefined
      ? { containers: [engine] }
      : { initContainers: [{ ...engine, restartPolicy: 'Always' }], containers: [inferenceContainer(inference)] }),
    volumes: volumes(definition),
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 60,
    // Workers of other pods of the node reach a DaemonSet's engine over its loopback.
    ...(isNode ? { hostNetwork: true, dnsPolicy: 'ClusterFirstWithHostNet' } : {}),
    // One user for all containers: the shared memory is readable by its owner alone.
    securityContext: {
      runAsNonRoot: true,
      runAsUser: user,
      runAsGroup: user,
      fsGroup: user,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    ...(spec.nodeSelector === undefined ? {} : { nodeSelector: spec.nodeSelector }),
    ...(spec.tolerations === undefined ? {} : { tolerations: spec.tolerations }),
    ...(spec.affinity === undefined ? {} : { affinity: spec.affinity }),
  }
}

function engineContainer(definition: EngineDefinition): Record<string, unknown> {
  const { spec, metrics } = definition
  const port = spec.prometheus?.port ?? 9090
  return {
    name: 'kvtier',
    image: spec.image,
    ...(spec.imagePullPolicy === undefined ? {} : { imagePullPolicy: spec.imagePullPolicy }),
    args: ['serve', '--config', `${CONFIG_DIR}/kvtier.yaml`],
    env: environment(definition),
    ports: [
      ...(spec.auth === undefined ? [] : [{ name: 'http', containerPort: POD_PORTS.http }]),
      ...(metrics === 'scrape' ? [{ name: 'metrics', containerPort: port }] : []),
    ],
    startupProbe: { ...probe(definition, '/healthz'), periodSeconds: 2, failureThreshold: 300 },
    livenessProbe: { ...probe(definition, '/healthz'), periodSeconds: 10, timeoutSeconds: 5, failureThreshold: 6 },
    readinessProbe: { ...probe(definition, '/readyz'), periodSeconds: 5, timeoutSeconds: 5 },
    resources: engineResources(definition),
    volumeMounts: [
      { name: 'config', mountPath: CONFIG_DIR, readOnly: true },
      { name: 'data', mountPath: DATA_DIR },
      { name: 'shm', mountPath: '/dev/shm' },
      { name: 'tmp', mountPath: '/tmp' },
      ...(spec.auth === undefined
        ? []
        : [{ name: 'tokens', mountPath: `${DATA_DIR}/tokens.json`, subPath: 'tokens.json', readOnly: true }]),
      ...scrapeMounts(definition),
    ],
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
  }
}

/** The probes of the kubelet reach a pod's address only; an API on loopback is asked from inside. */
function probe({ spec }: EngineDefinition, path: string): Record<string, unknown> {
  if (spec.auth !== undefined) return { httpGet: { path, port: POD_PORTS.http } }
  const script = `fetch('http://127.0.0.1:${POD_PORTS.http}${path}').then((a)=>process.exit(a.ok?0:1),()=>process.exit(1))`
  return { exec: { command: ['node', '-e', script] } }
}

function environment({ name, spec, metrics }: EngineDefinition): object[] {
  const pod = { valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }
  const secrets = Object.entries(spec.secretEnv ?? {}).map(([variable, { secret, key }]) => ({
    name: variable,
    valueFrom: { secretKeyRef: { name: secret, key } },
  }))
  if (metrics !== 'push') return secrets
  return [
    { name: 'KVTIER_OTLP_POD_NAME', ...pod },
    { name: 'KVTIER_OTLP_INSTANCE_ID', ...pod },
    { name: 'KVTIER_OTLP_ENGINE_NAME', value: name },
    ...secrets,
  ]
}

/** What the engine's container asks for. Shared memory counts as memory of the pod. */
export function engineResources(definition: EngineDefinition): object {
  if (definition.spec.resources !== undefined) return definition.spec.resources
  const memory = `${sharedMemoryMib(definition) + PROCESS_MIB}Mi`
  return { requests: { cpu: '2', memory }, limits: { memory } }
}

function inferenceContainer(inference: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const mounts = Array.isArray(inference.volumeMounts) ? (inference.volumeMounts as object[]) : []
  return { name: 'inference', ...inference, volumeMounts: [...mounts, { name: 'shm', mountPath: '/dev/shm' }] }
}

function volumes(definition: EngineDefinition): object[] {
  const { name, spec } = definition
  const isNode = spec.kind === 'DaemonSet'
  const claim =
    spec.storage === undefined
      ? { emptyDir: {} }
      : {
          ephemeral: {
            volumeClaimTemplate: {
              spec: {
                accessModes: ['ReadWriteOnce'],
                resources: { requests: { storage: spec.storage.size } },
                ...(spec.storage.storageClassName === undefined
                  ? {}
                  : { storageClassName: spec.storage.storageClassName }),
              },
            },
          },
        }
  return [
    { name: 'config', configMap: { name: `${name}-config` } },
    { name: 'data', ...claim },
    isNode
      ? { name: 'shm', hostPath: { path: '/dev/shm', type: 'Directory' } }
      : { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: `${sharedMemoryMib(definition)}Mi` } },
    { name: 'tmp', emptyDir: {} },
    ...(spec.auth === undefined ? [] : [{ name: 'tokens', secret: { secretName: spec.auth.tokensSecret } }]),
    ...scrapeVolumes(definition),
  ]
}

/** Pods restart when their options change. FNV-1a, 32 bits: it only has to differ. */
function configHash(text: string): string {
  let hash = 0x811c9dc5
  for (const byte of Buffer.from(text)) hash = Math.imul(hash ^ byte, 0x01000193)
  return (hash >>> 0).toString(16).padStart(8, '0')
}
