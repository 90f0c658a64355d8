import { stringify } from 'yaml'
import type { EngineDefinition } from '../engine-definition.ts'
import { ruleGroups } from '../rules.ts'
import { dashboardText } from '../texts.ts'
import { engineConfig, workload } from './engine-pod.ts'
import { type Manifest, metadata, selectorLabels } from './names.ts'
import { scrapeEndpoint } from './scrape-secrets.ts'

/**
 * Every object that an engine needs on Kubernetes, in the order to apply them: its options, the pods, the headless
 * Service `NAME-metrics` and the ServiceMonitor where metrics are scraped, rules and dashboard where asked for.
 */
export function engineManifests(definition: EngineDefinition): Manifest[] {
  const { name, spec, metrics } = definition
  const configText = stringify(engineConfig(definition))
  const isMonitored = metrics === 'scrape' && spec.prometheus?.serviceMonitor?.enabled === true
  return [
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: metadata(definition, '-config'),
      data: { 'kvtier.yaml': configText },
    },
    workload(definition, configText),
    ...(metrics === 'scrape' ? [metricsService(definition)] : []),
    ...(isMonitored ? [serviceMonitor(definition)] : []),
    ...(spec.alerts?.enabled === true
      ? [
          {
            apiVersion: 'monitoring.coreos.com/v1',
            kind: 'PrometheusRule',
            metadata: metadata(definition, '-rules', spec.alerts.labels),
            spec: ruleGroups(),
          },
        ]
      : []),
    ...(spec.dashboard?.enabled === true
      ? [
          {
            apiVersion: 'v1',
            kind: 'ConfigMap',
            metadata: metadata(definition, '-dashboard', { grafana_dashboard: '1', ...spec.dashboard.labels }),
            data: { [`${name}.json`]: dashboardText() },
          },
        ]
      : []),
  ]
}

/** The objects as one YAML stream for `kubectl apply -f -`. */
export function manifestText(manifests: readonly Manifest[]): string {
  return manifests.map((manifest) => stringify(manifest, { lineWidth: 0, aliasDuplicateObjects: false })).join('---\n')
}

/** Headless, so that each engine is a target of its own. */
function metricsService(definition: EngineDefinition): Manifest {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: metadata(definition, '-metrics'),
    spec: {
      clusterIP: 'None',
      selector: selectorLabels(definition.name),
      ports: [{ name: 'metrics', port: definition.spec.prometheus?.port ?? 9090, targetPort: 'metrics' }],
    },
  }
}

/** Its labels are those by which the scraper selects ServiceMonitors. */
function serviceMonitor(definition: EngineDefinition): Manifest {
  const { labels = {}, interval = '15s' } = definition.spec.prometheus?.serviceMonitor ?? {}
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'ServiceMonitor',
    metadata: metadata(definition, '-metrics', labels),
    spec: {
      selector: { matchLabels: selectorLabels(definition.name) },
      endpoints: [{ port: 'metrics', path: '/metrics', interval, ...scrapeEndpoint(definition) }],
    },
  }
}
