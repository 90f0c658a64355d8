import { stringify } from 'yaml'
import type { EngineDefinition } from '../engine-definition.ts'
import { dashboardText, rulesText } from '../texts.ts'
import { engineConfig, engineResources, sharedMemoryMib } from './engine-pod.ts'
import { engineManifests } from './manifests.ts'
import type { Manifest } from './names.ts'

// A value that stands for a template expression while objects are built: what is between the marks is written in
// braces, without the quotes that YAML puts around it.
const MARK = '%%'
const MARKED = /(["']?)%%(.+?)%%\1/g

function expression(code: string): string {
  return `${MARK}${code}${MARK}`
}

/** A subtree out of the values, `indent` columns in. */
function subtree(path: string, indent: number): string {
  return expression(`- toYaml ${path} | nindent ${indent}`)
}

/**
 * A Helm chart for engines like one definition: its files by path. Rendered with its own values it gives the objects
 * of `engineManifests`; the image, the number of pods, resources, placement and every option of the engine are values.
 *
 * What is there at all (the inference server, storage, tokens, Deployment or DaemonSet) is that of the definition:
 * another shape is another chart, from the same source.
 */
export function helmChart(definition: EngineDefinition, version: string): Map<string, string> {
  const templated = templatedDefinition(definition)
  const files = new Map<string, string>([
    ['Chart.yaml', chartFile(definition, version)],
    ['values.yaml', valuesFile(definition)],
    ['.helmignore', '*.tgz\n'],
  ])
  for (const manifest of engineManifests(templated)) {
    const { kind } = manifest
    if (kind === 'PrometheusRule') {
      files.set('files/rules.yaml', rulesText())
      files.set('templates/rules.yaml', template({ ...manifest, spec: expression(fileAt('files/rules.yaml', 2)) }))
    } else if (kind === 'ConfigMap' && manifest.metadata.name.endsWith('-dashboard')) {
      files.set('files/dashboard.json', dashboardText())
      files.set('templates/dashboard.yaml', dashboardTemplate(manifest))
    } else files.set(`templates/${fileName(manifest)}.yaml`, templateOf(manifest))
  }
  return files
}

/** The definition with expressions in place of what the values decide. */
function templatedDefinition(definition: EngineDefinition): EngineDefinition {
  const { spec } = definition
  return {
    ...definition,
    name: expression('.Release.Name'),
    namespace: expression('.Release.Namespace'),
    spec: {
      ...spec,
      image: expression('.Values.image'),
      replicas: expression('.Values.replicas') as unknown as number,
      ...(spec.prometheus === undefined ? {} : { prometheus: templatedScrape(spec.prometheus) }),
    },
  }
}

function templatedScrape(scrape: NonNullable<EngineDefinition['spec']['prometheus']>) {
  const { serviceMonitor, token, tls } = scrape
  return {
    ...scrape,
    ...(serviceMonitor === undefined ? {} : { serviceMonitor: { ...serviceMonitor, labels: {} } }),
    ...(token === undefined ? {} : { token: { ...token, secret: expression('.Values.scrape.tokenSecret') } }),
    ...(tls === undefined ? {} : { tls: { ...tls, secret: expression('.Values.scrape.tlsSecret') } }),
  }
}

function chartFile({ name }: EngineDefinition, version: string): string {
  return stringify({
    apiVersion: 'v2',
    name: 'kvtier',
    description: `A tiered KV-cache engine beside an inference server, in the shape of the definition "${name}"`,
    type: 'application',
    version,
    appVersion: version,
  })
}

function valuesFile(definition: EngineDefinition): string {
  const { spec } = definition
  const values = {
    image: spec.image,
    ...(spec.kind === 'DaemonSet' ? {} : { replicas: spec.replicas ?? 1 }),
    resources: engineResources(definition),
    sharedMemory: `${sharedMemoryMib(definition)}Mi`,
    nodeSelector: spec.nodeSelector ?? {},
    tolerations: spec.tolerations ?? [],
    affinity: spec.affinity ?? {},
    serviceMonitorLabels: spec.prometheus?.serviceMonitor?.labels ?? {},
    ...scrapeSecrets(definition),
    options: engineConfig(definition),
  }
  return `# Options of the engine are those of its config file: kvtier print options.\n${stringify(values)}`
}

/** Names of the Secrets of the scrape: those of one namespace are not those of another. */
function scrapeSecrets({ spec }: EngineDefinition): object {
  const { token, tls } = spec.prometheus ?? {}
  if (token === undefined && tls === undefined) return {}
  return {
    scrape: {
      ...(token === undefined ? {} : { tokenSecret: token.secret }),
      ...(tls === undefined ? {} : { tlsSecret: tls.secret }),
    },
  }
}

function fileName({ kind, metadata }: Manifest): string {
  return kind === 'ConfigMap'
    ? 'config'
    : metadata.name.endsWith('-metrics') && kind === 'Service'
      ? 'service'
      : kind.toLowerCase()
}

function templateOf(manifest: Manifest): string {
  switch (manifest.kind) {
    case 'ConfigMap':
      return template({
        ...manifest,
        data: { 'kvtier.yaml': expression('- toYaml .Values.options | nindent 4') },
      }).replace('kvtier.yaml: {{', 'kvtier.yaml: |\n    {{')
    case 'Deployment':
    case 'DaemonSet':
      return template(withPlacement(manifest))
    case 'ServiceMonitor': {
      const text = template(manifest)
      return text.replace(
        /^ {4}app\.kubernetes\.io\/managed-by: .*$/m,
        (line) => `${line}\n    {{- with .Values.serviceMonitorLabels }}{{ toYaml . | nindent 4 }}{{- end }}`,
      )
    }
    default:
      return template(manifest)
  }
}

interface Container {
  readonly name: string
  readonly [field: string]: unknown
}

interface Volume {
  readonly name: string
  readonly emptyDir?: { readonly medium?: string }
}

interface PodSpec {
  readonly containers: readonly Container[]
  readonly initContainers?: readonly Container[]
  readonly volumes: readonly Volume[]
}

interface Workload extends Manifest {
  readonly spec: { readonly template: { readonly metadata: object; readonly spec: PodSpec } }
}

function withResources(containers: readonly Container[]): Container[] {
  return containers.map((each) =>
    each.name === 'kvtier' ? { ...each, resources: subtree('.Values.resources', 12) } : each,
  )
}

function withSharedMemory(volumes: readonly Volume[]): Volume[] {
  return volumes.map((each) =>
    each.emptyDir?.medium === 'Memory'
      ? { ...each, emptyDir: { ...each.emptyDir, sizeLimit: expression('.Values.sharedMemory') } }
      : each,
  )
}

/** Where pods run comes out of the values, and pods restart when the options change. */
function withPlacement(manifest: Manifest): Manifest {
  const workload = manifest as Workload
  const pod = workload.spec.template
  return {
    ...workload,
    spec: {
      ...workload.spec,
      template: {
        metadata: {
          ...pod.metadata,
          annotations: { 'kvtier/config-hash': expression('toYaml .Values.options | sha256sum | trunc 8 | quote') },
        },
        spec: {
          ...pod.spec,
          containers: withResources(pod.spec.containers),
          ...(pod.spec.initContainers === undefined ? {} : { initContainers: withResources(pod.spec.initContainers) }),
          volumes: withSharedMemory(pod.spec.volumes),
          nodeSelector: subtree('.Values.nodeSelector', 8),
          tolerations: subtree('.Values.tolerations', 8),
          affinity: subtree('.Values.affinity', 8),
        },
      },
    },
  }
}

function dashboardTemplate(manifest: Manifest): string {
  const key = expression('.Release.Name')
  const data = { [`${key}.json`]: expression(fileAt('files/dashboard.json', 4)) }
  return template({ ...manifest, data }).replace(/(\.json"?): {{/, '$1: |\n    {{')
}

function fileAt(path: string, indent: number): string {
  return `- .Files.Get "${path}" | nindent ${indent}`
}

function template(manifest: object): string {
  const text = stringify(manifest, { lineWidth: 0, aliasDuplicateObjects: false })
  return text.replace(MARKED, (_, _quote, code: string) =>
    code.startsWith('- ') ? `{{- ${code.slice(2)} }}` : `{{ ${code} }}`,
  )
}
