import { type Resource, resourceFromAttributes } from '@opentelemetry/resources'
import type { PushOptions } from '../options.ts'

/** What the engine says of itself with every push: the OpenTelemetry semantic conventions of `service` and `k8s`. */
export function pushResource(options: PushOptions, version: string): Resource {
  const { serviceName, instanceId, engineName, podName, attributes } = options
  return resourceFromAttributes({
    'service.name': serviceName,
    'service.instance.id': instanceId,
    'service.version': version,
    ...(engineName === '' ? {} : { 'kvtier.engine.name': engineName }),
    ...(podName === '' ? {} : { 'k8s.pod.name': podName }),
    ...attributes,
  })
}
