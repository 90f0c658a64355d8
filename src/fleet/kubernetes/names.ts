import type { EngineDefinition } from '../engine-definition.ts'

/** An object of the Kubernetes API. */
export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string } & Readonly<Record<string, unknown>>
  readonly [field: string]: unknown
}

/** By which pods and Services of one engine find each other. */
export function selectorLabels(name: string): Record<string, string> {
  return { 'app.kubernetes.io/name': 'kvtier', 'app.kubernetes.io/instance': name }
}

/** Name, namespace and labels of an object of an engine. */
export function metadata(
  { name, namespace }: Pick<EngineDefinition, 'name' | 'namespace'>,
  suffix = '',
  labels: Readonly<Record<string, string>> = {},
) {
  return {
    name: `${name}${suffix}`,
    ...(namespace === undefined ? {} : { namespace }),
    labels: {
      ...selectorLabels(name),
      'app.kubernetes.io/component': 'engine',
      'app.kubernetes.io/managed-by': 'kvtier',
      ...labels,
    },
  }
}
