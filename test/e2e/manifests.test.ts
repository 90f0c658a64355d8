import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { parse, parseAllDocuments, stringify } from 'yaml'
import { runCommand } from '../support/engine-process.ts'
import { goTool } from '../support/go-program.ts'
import { REPOSITORY } from '../support/source-tree.ts'

const EXAMPLE = join(REPOSITORY, 'config/k8s/engine.yaml')
const SPEC = { image: 'kvtier:1', l1: { size: '1GiB' } }

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'kvtier-manifests-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

function definition(spec: object, namespace?: string): string {
  const file = join(folder, 'engine.yaml')
  writeFileSync(file, stringify({ engine: { name: 'a', namespace, spec: { ...SPEC, ...spec } } }))
  return file
}

/** A monitored scrape with a token, by https. */
function scrapeOf(tls: object) {
  return { enabled: true, token: { secret: 'scrape-token', key: 'word' }, tls, serviceMonitor: { enabled: true } }
}

async function manifestsOf(tls: object): Promise<string> {
  const { code, stdout, stderr } = await runCommand(['manifests', definition({ prometheus: scrapeOf(tls) })])
  expect(code, stderr).toBe(0)
  return stdout
}

/** Kind and name of each object, by types of the Kubernetes API that refuse unknown fields. */
function checked(program: string, text: string): string[] {
  const { status, stdout, stderr } = spawnSync(program, { input: text, encoding: 'utf8' })
  expect(status, stderr).toBe(0)
  return stdout.trimEnd().split('\n')
}

it.each<[string, object, string[]]>([
  ['a bare engine', {}, ['ConfigMap a-config', 'Deployment a']],
  ['one on each node', { kind: 'DaemonSet' }, ['ConfigMap a-config', 'DaemonSet a']],
  [
    'a scraped one',
    { prometheus: { enabled: true, port: 9191 } },
    ['ConfigMap a-config', 'Deployment a', 'Service a-metrics'],
  ],
  [
    'a monitored one',
    { prometheus: { enabled: true, serviceMonitor: { enabled: true, labels: { release: 'p' } } } },
    ['ConfigMap a-config', 'Deployment a', 'Service a-metrics', 'ServiceMonitor a-metrics'],
  ],
  [
    'one that pushes',
    { 'otlp-endpoint': 'http://collector:4318', observability: { enabled: true }, prometheus: { enabled: true } },
    ['ConfigMap a-config', 'Deployment a'],
  ],
  [
    'one with everything',
    {
      auth: { tokensSecret: 'tokens' },
      secretEnv: { AWS_SECRET_ACCESS_KEY: { secret: 's3', key: 'secret' } },
      storage: { size: '10Gi', storageClassName: 'fast' },
      resources: { limits: { memory: '4Gi' } },
      tolerations: [{ key: 'gpu', operator: 'Exists' }],
      affinity: { nodeAffinity: {} },
      inference: { image: 'vllm', args: ['--model=x'], volumeMounts: [{ name: 'tmp', mountPath: '/tmp' }] },
      alerts: { enabled: true, labels: { release: 'p' } },
      dashboard: { enabled: true },
    },
    ['ConfigMap a-config', 'Deployment a', 'PrometheusRule a-rules', 'ConfigMap a-dashboard'],
  ],
])('the objects of %s are of the Kubernetes API', async (_name, spec, objects) => {
  const { code, stdout, stderr } = await runCommand(['manifests', definition(spec)])
  expect(code, stderr).toBe(0)
  expect(parseAllDocuments(stdout).map((each) => `${each.get('kind')} ${each.getIn(['metadata', 'name'])}`)).toEqual(
    objects,
  )
})

it('types of the Kubernetes API take every object, and a foreign field is refused', async (context) => {
  const program = goTool(context, 'strict-manifests')
  const { stdout, code } = await runCommand(['manifests', EXAMPLE])
  expect(code).toBe(0)
  expect(checked(program, stdout)).toHaveLength(6)
  const full = definition({
    kind: 'DaemonSet',
    auth: { tokensSecret: 'tokens' },
    secretEnv: { SECRET: { secret: 's3', key: 'secret' } },
    storage: { size: '10Gi', storageClassName: 'fast' },
    'otlp-endpoint': 'http://collector:4318',
    inference: { image: 'vllm' },
  })
  expect(checked(program, (await runCommand(['manifests', full])).stdout)).toEqual([
    'ConfigMap a-config',
    'DaemonSet a',
  ])
  const foreign = spawnSync(program, { input: stdout.replace('sizeLimit:', 'sizeLimits:'), encoding: 'utf8' })
  expect(foreign.status).toBe(1)
  expect(foreign.stderr).toContain('sizeLimits')
})

it('the config of the pod is one that the engine takes, and its volume holds L1', async () => {
  const { stdout } = await runCommand(['manifests', EXAMPLE])
  const documents = parseAllDocuments(stdout).map((each) => each.toJS())
  const config = join(folder, 'kvtier.yaml')
  writeFileSync(config, documents[0].data['kvtier.yaml'])
  const check = await runCommand(['check-config', '--config', config, '--json'])
  expect(check.code, check.stderr).toBe(0)
  const pod = documents[1].spec.template.spec
  const shm = pod.volumes.find((volume: { name: string }) => volume.name === 'shm')
  expect(Number.parseInt(shm.emptyDir.sizeLimit, 10)).toBeGreaterThan(64 * 1024)
  const mounts = [...pod.initContainers, ...pod.containers].map(
    (each: { volumeMounts: { name: string }[] }) => each.volumeMounts,
  )
  for (const mounted of mounts) expect(mounted).toContainEqual({ name: 'shm', mountPath: '/dev/shm' })
})

it('a ServiceMonitor selects the Service of its engine and carries the labels of the scraper', async () => {
  const labels = { release: 'prometheus', team: 'x' }
  const file = definition({ prometheus: { enabled: true, serviceMonitor: { enabled: true, labels } } })
  const documents = parseAllDocuments((await runCommand(['manifests', file])).stdout).map((each) => each.toJS())
  const [service, monitor] = documents.slice(-2)
  expect(service).toMatchObject({ spec: { clusterIP: 'None', ports: [{ name: 'metrics', port: 9090 }] } })
  expect(monitor.metadata.labels).toMatchObject(labels)
  expect(service.metadata.labels).toMatchObject(monitor.spec.selector.matchLabels)
  expect(monitor.spec.endpoints[0].port).toBe(service.spec.ports[0].name)
})

it('a scrape with a token by https takes both from Secrets, at the engine and at the scraper', async (context) => {
  const program = goTool(context, 'strict-manifests')
  const ca = { secret: 'authority', key: 'root.pem' }
  const tls = { secret: 'scrape-tls', ca, serverName: 'kv.example' }
  const text = await manifestsOf(tls)
  expect(checked(program, text)).toContain('ServiceMonitor a-metrics')
  const [config, deployment, , monitor] = parseAllDocuments(text).map((each) => each.toJS())
  expect(monitor.spec.endpoints).toEqual([
    {
      port: 'metrics',
      path: '/metrics',
      interval: '15s',
      scheme: 'https',
      authorization: { type: 'Bearer', credentials: { name: 'scrape-token', key: 'word' } },
      tlsConfig: { ca: { secret: { name: 'authority', key: 'root.pem' } }, serverName: 'kv.example' },
    },
  ])
  const options = parse(config.data['kvtier.yaml']).prometheus
  const { containers, volumes } = deployment.spec.template.spec
  const secretAt = (path: string) => {
    const folder = dirname(path)
    const mount = containers[0].volumeMounts.find((one: { mountPath: string }) => one.mountPath === folder)
    const { secret } = volumes.find((one: { name: string }) => one.name === mount.name)
    return [secret.secretName, secret.items.find((one: { path: string }) => one.path === basename(path)).key]
  }
  expect(secretAt(options['token-file'])).toEqual(['scrape-token', 'word'])
  expect(secretAt(options['cert-file'])).toEqual(['scrape-tls', 'tls.crt'])
  expect(secretAt(options['key-file'])).toEqual(['scrape-tls', 'tls.key'])
  const file = join(folder, 'kvtier.yaml')
  writeFileSync(file, config.data['kvtier.yaml'])
  const check = await runCommand(['check-config', '--config', file, '--json'])
  expect(check.code, check.stderr).toBe(0)
})

it('the certificate of a scrape is for the metrics Service, and signed by what lies beside it, unless said otherwise', async () => {
  const monitor = parseAllDocuments(await manifestsOf({ secret: 'scrape-tls' }))
    .at(-1)!
    .toJS()
  expect(monitor.spec.endpoints[0].tlsConfig).toEqual({
    ca: { secret: { name: 'scrape-tls', key: 'ca.crt' } },
    serverName: 'a-metrics',
  })
})

it('the chart has the Secrets of the scrape as values', async (context) => {
  const helm = goTool(context, 'helm', 'helm.sh/helm/v3/cmd/helm')
  const chart = join(folder, 'chart')
  const file = definition({ prometheus: scrapeOf({ secret: 'scrape-tls' }) })
  await runCommand(['manifests', file, '--chart', chart])
  const lint = spawnSync(helm, ['lint', '--strict', chart], { encoding: 'utf8' })
  expect(lint.status, `${lint.stdout}${lint.stderr}`).toBe(0)
  const render = (...words: string[]) => {
    const args = ['template', 'a', chart, '--namespace', 'n', ...words]
    const { status, stdout, stderr } = spawnSync(helm, args, { encoding: 'utf8' })
    expect(status, stderr).toBe(0)
    return stdout
  }
  const named = definition({ prometheus: scrapeOf({ secret: 'scrape-tls' }) }, 'n')
  expect(byName(render())).toEqual(byName((await runCommand(['manifests', named])).stdout))
  const other = render('--set', 'scrape.tokenSecret=t2', '--set', 'scrape.tlsSecret=c2')
  expect(other).not.toMatch(/secretName: "?scrape-/)
  expect(other.match(/secretName: [tc]2$/gm)).toHaveLength(2)
  expect(JSON.stringify(byName(other)['ServiceMonitor a-metrics'])).toContain(
    '"credentials":{"name":"t2","key":"word"}},"tlsConfig":{"ca":{"secret":{"name":"c2","key":"ca.crt"}},"serverName":"a-metrics.n.svc"}',
  )
})

it.each<[string, object, string]>([
  [
    'a token of no scrape',
    { prometheus: { token: { secret: 's', key: 'k' } } },
    'token needs prometheus.enabled: true',
  ],
  ['a certificate of no scrape', { prometheus: { tls: { secret: 's' } } }, 'tls needs prometheus.enabled: true'],
  ['a token without its key', { prometheus: { enabled: true, token: { secret: 's' } } }, 'token.key is missing'],
  ['an unknown field', { prometheus: { enable: true } }, 'engine.spec.prometheus.enable is not a field'],
  ['a wrong type', { replicas: 'two' }, 'engine.spec.replicas must be integer'],
  ['an unknown option', { l1: { size: '1GiB', sise: 1 } }, 'did you mean l1.size?'],
  ['an option that is wrong', { l1: { size: 'big' } }, 'write a size with a unit'],
  ['no size of L1', { l1: {} }, 'engine.spec.l1.size is missing'],
  ['a port that the pod decides', { http: { port: 1 } }, 'engine.spec.http is set by the manifests'],
  ['a metrics port of the pod', { prometheus: { enabled: true, port: 8080 } }, 'engine.spec.prometheus.port is taken'],
  ['a monitor of nothing', { prometheus: { serviceMonitor: { enabled: true } } }, 'needs prometheus.enabled: true'],
  ['replicas of a DaemonSet', { kind: 'DaemonSet', replicas: 2 }, 'a DaemonSet runs one engine a node'],
  ['push without an endpoint', { observability: { enabled: true } }, 'there is no endpoint'],
  ['a gRPC endpoint', { 'otlp-endpoint': 'http://collector:4317' }, 'http://collector:4318'],
])('a definition with %s is refused in one line with its path', async (_name, spec, text) => {
  const { code, stdout, stderr } = await runCommand(['manifests', definition(spec)])
  expect(code).toBe(2)
  expect(stdout).toBe('')
  expect(stderr).toContain(text)
  expect(stderr.trimEnd()).not.toContain('\n')
})

it('a file that is missing, no YAML or no definition is refused', async () => {
  const file = join(folder, 'engine.yaml')
  for (const [text, says] of [
    ['engine: {name: Upper, spec: {}}', 'engine.'],
    ['engine: [', 'not valid YAML'],
    ['a: 1', 'engine is missing'],
    ['engine: {name: a, spec: {l1: {size: 1GiB}}}', 'engine.spec.image is missing'],
  ] as const) {
    writeFileSync(file, text)
    const { code, stderr } = await runCommand(['manifests', file])
    expect(code).toBe(2)
    expect(stderr).toContain(says)
  }
  expect((await runCommand(['manifests', join(folder, 'none.yaml')])).stderr).toContain('ENOENT')
})

it('the example of an engine names what it says', () => {
  expect(parse(readFileSync(EXAMPLE, 'utf8')).engine.name).toBe('qwen')
})

it('the Helm chart passes helm lint, and renders the same objects as the manifests', async (context) => {
  const helm = goTool(context, 'helm', 'helm.sh/helm/v3/cmd/helm')
  const chart = join(folder, 'chart')
  expect((await runCommand(['manifests', EXAMPLE, '--chart', chart])).code).toBe(0)
  const lint = spawnSync(helm, ['lint', '--strict', chart], { encoding: 'utf8' })
  expect(lint.status, `${lint.stdout}${lint.stderr}`).toBe(0)
  const rendered = spawnSync(helm, ['template', 'qwen', chart, '--namespace', 'inference'], { encoding: 'utf8' })
  expect(rendered.status, rendered.stderr).toBe(0)
  const { stdout } = await runCommand(['manifests', EXAMPLE])
  expect(byName(rendered.stdout)).toEqual(byName(stdout))
})

it('values of the chart change what they name', async (context) => {
  const helm = goTool(context, 'helm', 'helm.sh/helm/v3/cmd/helm')
  const chart = join(folder, 'chart')
  await runCommand(['manifests', EXAMPLE, '--chart', chart])
  const values = [
    'image=other:2',
    'replicas=7',
    'sharedMemory=9Gi',
    'options.l1.size=8GiB',
    'serviceMonitorLabels.team=x',
  ]
  const set = values.flatMap((value) => ['--set', value])
  const { status, stdout, stderr } = spawnSync(helm, ['template', 'b', chart, ...set], { encoding: 'utf8' })
  expect(status, stderr).toBe(0)
  const objects = byName(stdout)
  const { spec } = objects['Deployment b'] as {
    spec: { replicas: number; template: { spec: { initContainers: [{ image: string }] } } }
  }
  expect(spec.replicas).toBe(7)
  expect(spec.template.spec.initContainers[0].image).toBe('other:2')
  expect(JSON.stringify(spec)).toContain('"sizeLimit":"9Gi"')
  expect(JSON.stringify(objects['ConfigMap b-config'])).toContain('"size":"8GiB"')
  expect(JSON.stringify(objects['ServiceMonitor b-metrics'])).toContain('"team":"x"')
})

/** Objects by kind and name, with the texts in ConfigMaps read, without the hash that restarts pods. */
function byName(text: string): Record<string, unknown> {
  const objects = parseAllDocuments(text)
    .map((each) => each.toJS())
    .filter((object) => object !== null)
  for (const object of objects) {
    if (object.data?.['kvtier.yaml'] !== undefined) object.data = parse(object.data['kvtier.yaml'])
    for (const [key, json] of Object.entries(object.data ?? {}))
      if (key.endsWith('.json')) object.data[key] = JSON.parse(json as string)
    const template = object.spec?.template
    if (template === undefined) continue
    template.metadata.annotations = {}
    // Empty and absent mean the same.
    for (const key of ['nodeSelector', 'tolerations', 'affinity']) {
      if (Object.keys(template.spec[key] ?? {}).length === 0) delete template.spec[key]
    }
  }
  return Object.fromEntries(objects.map((object) => [`${object.kind} ${object.metadata.name}`, object]))
}
