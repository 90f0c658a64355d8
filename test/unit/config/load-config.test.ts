import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../src/config/load-config.ts'
import type { OptionInputs } from '../../../src/config/load-options.ts'
import { pushFields } from '../../../src/config/push-fields.ts'
import { CacheError } from '../../../src/core/errors.ts'
import { TEST_MACHINE } from '../../support/machine.ts'

const GIB = 1024 ** 3

function load(argv: readonly string[], env: OptionInputs['env'] = {}, file?: string) {
  const readFile = () => {
    if (file === undefined) throw Object.assign(new Error('no file'), { code: 'ENOENT' })
    return file
  }
  const flags = file === undefined ? argv : ['--config', 'kvtier.yaml', ...argv]
  return loadConfig({ argv: flags, env, machine: TEST_MACHINE, readFile })
}

function refusal(argv: readonly string[], env: OptionInputs['env'] = {}, file?: string): CacheError {
  try {
    load(argv, env, file)
  } catch (error) {
    expect(error).toBeInstanceOf(CacheError)
    return error as CacheError
  }
  throw new Error('nothing was refused')
}

describe('where a value comes from', () => {
  const file = 'l1:\n  size: 3GiB\n'

  it('takes the default when nothing is given', () => {
    const { options, sources } = load([])
    expect(options.l1.capacityBytes).toBe(2 * GIB) // a quarter of the memory
    expect(options.general.dataDir).toBe('/home/someone/kvtier-data')
    expect(options.http).toMatchObject({ host: '127.0.0.1', port: 8080 })
    expect(options.prometheus).toMatchObject({ enabled: true, host: '0.0.0.0', port: 9090 })
    expect(sources.get('--l1-size')).toBe('default')
  })

  it('takes the file over the default', () => {
    const { options, sources } = load([], {}, file)
    expect(options.l1.capacityBytes).toBe(3 * GIB)
    expect(sources.get('--l1-size')).toBe('file')
  })

  it('takes the environment over the file', () => {
    const { options, sources } = load([], { KVTIER_L1_SIZE: '1GiB' }, file)
    expect(options.l1.capacityBytes).toBe(GIB)
    expect(sources.get('--l1-size')).toBe('env')
  })

  it('takes a flag over the environment', () => {
    const { options, sources } = load(['--l1-size', '512MiB'], { KVTIER_L1_SIZE: '1GiB' }, file)
    expect(options.l1.capacityBytes).toBe(GIB / 2)
    expect(sources.get('--l1-size')).toBe('flag')
  })

  it('reads JSON as well as YAML', () => {
    expect(load([], {}, '{"l1": {"size": 1073741824}, "log-level": "debug"}').options).toMatchObject({
      l1: { capacityBytes: GIB },
      general: { logLevel: 'debug' },
    })
  })

  it('finds the file by KVTIER_CONFIG', () => {
    const readFile = (path: string) => {
      expect(path).toBe('/etc/kvtier.yaml')
      return 'http: {port: 1234}'
    }
    const inputs = { argv: [], env: { KVTIER_CONFIG: '/etc/kvtier.yaml' }, machine: TEST_MACHINE, readFile }
    expect(loadConfig(inputs).options.http.port).toBe(1234)
  })

  it('accepts an empty file', () => {
    expect(load([], {}, '# nothing\n').options.http.port).toBe(8080)
  })

  it('passes over what Kubernetes says of Services that are called kvtier, or begin so', () => {
    const env = {
      KVTIER_SERVICE_HOST: '10.0.0.1',
      KVTIER_SERVICE_PORT: '8080',
      KVTIER_SERVICE_PORT_HTTP: '8080',
      KVTIER_PORT: 'tcp://10.0.0.1:8080',
      KVTIER_PORT_8080_TCP: 'tcp://10.0.0.1:8080',
      KVTIER_PORT_8080_TCP_PROTO: 'tcp',
      KVTIER_PORT_8080_TCP_PORT: '8080',
      KVTIER_PORT_8080_TCP_ADDR: '10.0.0.1',
      KVTIER_MP_SERVICE_HOST: '10.0.0.2',
      KVTIER_MP_PORT: 'tcp://10.0.0.2:5555', // the name of an option
      KVTIER_MP_PORT_5555_TCP_ADDR: '10.0.0.2',
    }
    const { options, sources } = load([], env, 'mp: {port: 6666}')
    expect(options.mp.port).toBe(6666)
    expect(sources.get('--mp-port')).toBe('file')
    expect(load([], { ...env, KVTIER_MP_PORT: '7777' }).options.mp.port).toBe(7777)
  })

  it('passes over the variable of the install, which may run in the same command', () => {
    expect(load([], { KVTIER_REQUIRE_NATIVE: '1' }).options.http.port).toBe(8080)
  })

  it('leaves foreign environment variables alone', () => {
    expect(load([], { PATH: '/bin', HOME: '/root' }).options.http.port).toBe(8080)
  })
})

describe('derived defaults', () => {
  it('bounds the L1 size by shared memory', () => {
    const machine = { ...TEST_MACHINE, freeSharedMemoryBytes: GIB }
    const { options } = loadConfig({ argv: [], env: {}, machine, readFile: () => '' })
    expect(options.l1.capacityBytes).toBe(819 * 1024 ** 2)
  })

  it('puts one filesystem adapter under the data directory', () => {
    const { options } = load(['--data-dir', 'here'])
    expect(options.l2.adapters).toMatchObject([
      {
        name: 'disk',
        backend: { type: 'filesystem', directory: '/home/someone/here/l2/disk', capacityBytes: 10 * GIB },
      },
    ])
  })

  it('gives that adapter half the disk when the disk is small', () => {
    const machine = { ...TEST_MACHINE, freeDiskBytes: () => 6 * GIB }
    const { options } = loadConfig({ argv: [], env: {}, machine, readFile: () => '' })
    expect(options.l2.adapters[0]?.backend).toMatchObject({ capacityBytes: 3 * GIB })
  })

  it('sizes the load budget by the L1 size that was given', () => {
    expect(load(['--l1-size', '1GiB']).options.transfer.loadBudgetBytes).toBe(GIB / 4)
  })
})

describe('flags', () => {
  it.each([
    [['--prometheus-enabled'], true],
    [['--prometheus-enabled', 'false'], false],
    [['--prometheus-enabled=false'], false],
    [['--no-prometheus-enabled'], false],
  ])('reads the switch %j', (argv, expected) => {
    expect(load(argv).options.prometheus.enabled).toBe(expected)
  })

  it('reads --flag=value', () => {
    expect(load(['--http-port=0']).options.http.port).toBe(0)
  })

  it('reads adapters from repeated flags, in order', () => {
    const { options } = load([
      '--l2',
      'name=ram,type=memory,capacity=1GiB',
      '--l2',
      'name=d,type=filesystem,capacity=2GiB',
    ])
    expect(options.l2.adapters).toMatchObject([
      { name: 'ram', backend: { type: 'memory', capacityBytes: GIB } },
      { name: 'd', backend: { type: 'filesystem', directory: '/home/someone/kvtier-data/l2/d' } },
    ])
  })

  it('reads a fault injector with the keys of what it wraps', () => {
    const spec = 'name=f,type=fault,inner-type=filesystem,path=/d,capacity=1GiB,latency=5ms,error-rate=0.01,seed=4'
    const inner = { type: 'filesystem', directory: '/d', capacityBytes: GIB }
    expect(load(['--l2', spec]).options.l2.adapters).toMatchObject([
      { name: 'f', backend: { type: 'fault', latencyMs: 5, errorRate: 0.01, corruptRate: 0, seed: 4, inner } },
    ])
  })

  it('reads peers, named one by one or by one name', () => {
    const spec = 'name=p,type=peer,urls=http://a:1+https://b,service=http://all:8080,token-file=t,answer=1s'
    const backend = {
      type: 'peer',
      urls: ['http://a:1', 'https://b'],
      service: 'http://all:8080',
      tokenFile: '/home/someone/t',
      answerMs: 1000,
    }
    expect(load(['--l2', spec]).options.l2.adapters).toMatchObject([{ name: 'p', backend }])
  })

  it('reads adapters from the environment', () => {
    const spec = 'name=a,type=memory,capacity=1GiB;name=b,type=filesystem,path=/mnt/b,capacity=1GiB,durability=checksum'
    expect(load([], { KVTIER_L2: spec }).options.l2.adapters).toMatchObject([
      { name: 'a' },
      { name: 'b', backend: { directory: '/mnt/b', durability: 'checksum' } },
    ])
  })

  it('reads adapters from a file, limits included', () => {
    const file = 'l2:\n  - {name: a, type: memory, capacity: 1GiB, retries: 5, load-deadline: 3s}\n'
    expect(load([], {}, file).options.l2.adapters).toMatchObject([
      { name: 'a', limits: { retries: 5, loadDeadlineMs: 3000, storeDeadlineMs: 30_000 } },
    ])
  })

  it('turns L2 off', () => {
    expect(load(['--l2', 'none']).options.l2.adapters).toEqual([])
    expect(load([], {}, 'l2: []').options.l2.adapters).toEqual([])
  })
})

describe('push or scrape', () => {
  it('scrapes unless an endpoint is given', () => {
    const { options, warnings } = load(['--observability-enabled=false'])
    expect(options).toMatchObject({ push: { endpoint: '' }, prometheus: { enabled: true } })
    expect(warnings).toEqual([])
  })

  it('pushes when an endpoint is given, and then serves no metrics', () => {
    const { options, warnings } = load(['--otlp-endpoint', 'http://collector:4318'])
    expect(options).toMatchObject({ push: { endpoint: 'http://collector:4318' }, prometheus: { enabled: false } })
    expect(warnings).toEqual([])
  })

  it('warns once where both are asked for', () => {
    const { options, warnings } = load(['--prometheus-enabled', '--otlp-endpoint=http://collector:4318'])
    expect(options.prometheus.enabled).toBe(false)
    expect(warnings).toEqual([expect.stringContaining('--prometheus-enabled is not followed')])
  })

  it('pushes to an endpoint even where push is declined by name, and says so', () => {
    const { warnings } = load(['--observability-enabled=false', '--otlp-endpoint=http://collector:4318'])
    expect(warnings).toEqual([expect.stringContaining('so metrics are pushed')])
  })

  it.each([
    ['http://collector:4318/', 'http://collector:4318'],
    ['http://collector:4318/v1/metrics', 'http://collector:4318'],
    ['https://prometheus/api/v1/otlp', 'https://prometheus/api/v1/otlp'],
    ['https://prometheus/api/v1/otlp/v1/metrics/', 'https://prometheus/api/v1/otlp'],
  ])('reads %s as %s', (written, base) => {
    expect(load(['--otlp-endpoint', written]).options.push.endpoint).toBe(base)
  })

  it('never shows a header, in a value or in an error', () => {
    const { options } = load(['--otlp-headers', 'authorization=Bearer s3cret'])
    expect(options.push.headers).toEqual({ authorization: 'Bearer s3cret' })
    expect(pushFields.headers.show(options.push.headers)).toBe('authorization=***')
    expect(() => load(['--otlp-headers', 's3cret'])).toThrow(/^(?!.*s3cret)/s)
  })

  it('names the engine by its host and its data directory unless told otherwise', () => {
    const first = load(['--data-dir', '/a']).options.push.instanceId
    expect(first).toMatch(/^machine-one-[0-9a-f]{8}$/)
    expect(load(['--data-dir', '/b']).options.push.instanceId).not.toBe(first)
  })
})

const BAD_FLAGS: [argv: string[], field: string, says: string][] = [
  [['--l1-sise', '1GiB'], '--l1-sise', 'did you mean --l1-size?'],
  [['--nonsense-of-a-flag', '1'], '--nonsense-of-a-flag', 'is not an option'],
  [['--l1-size'], '--l1-size', 'has no value'],
  [['--l1-size', '4Gigs'], '--l1-size', 'write a size with a unit'],
  [['--l1-size', '-1GiB'], '--l1-size', 'write a size with a unit'],
  [['--l1-size', '1KiB'], '--l1-size', 'at least 1MiB'],
  [['--l1-size', '9999999999999TiB'], '--l1-size', 'write a size with a unit'],
  [['--l1-size', '1GiB', '--l1-size', '2GiB'], '--l1-size', 'given twice'],
  [['--l1-high', '1.5'], '--l1-high', 'from 0 to 1'],
  [['--l1-high', '0.5', '--l1-low', '0.9'], '--l1-low', 'not above the high'],
  [['--l1-policy', 'fifo'], '--l1-policy', 'lru, s3-fifo, arc, adaptive'],
  [['--l1-ghosts', '100000000'], '--l1-ghosts', 'fewer ghosts'],
  [['--observability-enabled'], '--observability-enabled', 'write --otlp-endpoint'],
  [['--otlp-endpoint', 'collector:4318'], '--otlp-endpoint', 'http:// or https://'],
  [['--otlp-endpoint', 'http://collector:4317'], '--otlp-endpoint', 'write the OTLP/HTTP port: http://collector:4318'],
  [['--otlp-endpoint', 'grpc://collector:4317'], '--otlp-endpoint', 'over gRPC'],
  [['--otlp-endpoint', 'http://me:pass@collector:4318'], '--otlp-endpoint', '--otlp-headers'],
  [['--otlp-endpoint', 'http://collector:4318/?a=b'], '--otlp-endpoint', 'leave out'],
  [['--otlp-attributes', '9=x'], '--otlp-attributes', 'a name is wrong'],
  [['--otlp-cert-file', 'x.pem'], '--otlp-cert-file', 'go together'],
  [['--http-port', '65536'], '--http-port', 'from 0 to 65535'],
  [['--http-port', '80a'], '--http-port', 'from 0 to 65535'],
  [['--http-port', '1e3'], '--http-port', 'from 0 to 65535'],
  [['--http-port', '7000', '--prometheus-port', '7000'], '--prometheus-port', 'write two ports'],
  [['--http-port', '5555'], '--mp-port', '--mp-port and --http-port are both 5555: write two ports'],
  [['--http-host', ''], '--http-host', 'it is empty'],
  [['--http-host', 'a\nb'], '--http-host', 'one line'],
  [['--prometheus-enabled=maybe'], '--prometheus-enabled', 'true or false'],
  [['--log-level', 'loud'], '--log-level', 'write one of'],
  [['--lease-ttl', '30'], '--lease-ttl', 'a time with a unit'],
  [['--lease-ttl', '1ms'], '--lease-ttl', 'from 100ms to 1h'],
  [['--chunk-tokens', '0'], '--chunk-tokens', 'from 1 to 65536'],
  [['--transfer-load-budget', '100GiB'], '--transfer-load-budget', 'larger than --l1-size'],
  [['--mp-port', '-1'], '--mp-port', 'from 0 to 65535'],
  [['--config', 'missing.yaml'], '--config', 'ENOENT'],
  [['--a\nb'], '--a?b', 'is not an option'],
  [['start'], 'start', 'not expected here'],
  [['--l2', 'name=a,type=tape,capacity=1GiB'], '--l2', 'write type as one of: filesystem, memory'],
  [['--l2', 'name=a,type=memory'], '--l2', 'write a capacity'],
  [['--l2', 'name=a,type=memory,capacity=1GiB,path=/x'], '--l2', 'has no path'],
  [['--l2', 'name=a,type=fault,capacity=1GiB'], '--l2', 'has no capacity'],
  [['--l2', 'name=a,type=fault,latency=1ms'], '--l2', 'write a inner-type for a, such as inner-type=filesystem'],
  [['--l2', 'name=a,type=fault,inner-type=memory,capacity=1GiB,path=/x'], '--l2', 'has no path'],
  [['--l2', 'name=a,type=fault,inner-type=fault'], '--l2', 'does not wrap another'],
  [['--l2', 'name=a,type=peer'], '--l2', 'write urls or service'],
  [['--l2', 'name=a,type=peer,urls=10.0.0.2:8080'], '--l2', 'write http://HOST:PORT'],
  [['--l2', 'name=a,type=peer,urls=http://u:p@h:1'], '--l2', 'write http://HOST:PORT'],
  [['--l2', 'name=a,type=peer,service=http://h:1/x'], '--l2', 'write http://HOST:PORT'],
  [['--l2', 'name=a,type=peer,urls=http://h:1,token=t,token-file=f'], '--l2', 'write the token once'],
  [['--l2', 'name=a,type=filesystem,capacity=1GiB,pat=/x'], '--l2', 'did you mean path?'],
  [['--l2', 'name=a/b,type=memory,capacity=1GiB'], '--l2', 'write name as'],
  [['--l2', 'name=..,type=filesystem,capacity=1GiB'], '--l2', 'write name as'],
  [['--l2', 'disk'], '--l2', 'write name=NAME'],
  [['--l2', 'name=a,name=b,type=memory,capacity=1GiB'], '--l2', 'written twice'],
  [['--l2', 'name=a,type=memory,capacity=1GiB', '--l2', 'name=a,type=memory,capacity=1GiB'], '--l2', 'used twice'],
  [['--l2', 'name=a,type=memory,capacity=1GiB,retries=many'], '--l2', 'retries is wrong'],
  [['--l2', 'name=a,type=memory,capacity=1GiB,admit-touches=0'], '--l2', 'admit-touches is wrong'],
  [['--l2', 'name=a,type=memory,capacity=1GiB,write=around'], '--l2', 'write is wrong'],
  [
    ['--l1-policy', 'arc', '--l2', 'name=a,type=memory,capacity=1GiB,write=back'],
    '--l2',
    'needs --l1-policy lru or adaptive',
  ],
  [['--l1-isolation', 'model', '--l1-policy', 'arc'], '--l1-policy', '--l1-isolation is model and --l1-policy is arc'],
  [['--l1-isolation', 'model', '--l1-isolation-models', '1'], '--l1-isolation-models', '2'],
  [
    ['--l1-isolation', 'model', '--l2', 'name=a,type=memory,capacity=1GiB,write=back'],
    '--l2',
    'needs --l1-isolation none',
  ],
  [['--quota-default-l1', 'much'], '--quota-default-l1', 'write a size'],
  [['--simulated-device-profile', 'h900'], '--simulated-device-profile', 'write one of'],
]

it.each(BAD_FLAGS)('refuses the flags %j, naming %s', (argv, field, says) => {
  const error = refusal(argv)
  expect(error.code).toBe('CONFIG_INVALID')
  expect(error.detail.field).toBe(field)
  expect(error.message).toContain(field)
  expect(error.message).toContain(says)
  expect(error.message).not.toContain('\n')
})

it('reads flow control and quotas, by adapter and for all', () => {
  const own = 'store-budget=1MiB,store-pending=2MiB,load-budget=3MiB,load-pending=4MiB,admit-touches=2,write=back'
  const flags = ['--quota-default-l1', '5MiB', '--transfer-load-skip-slower', '8000', '--transfer-write-back-at', '0.7']
  const { options } = load([
    `--l2=name=a,type=memory,capacity=1GiB,${own}`,
    '--l2=name=b,type=memory,capacity=1GiB',
    ...flags,
  ])
  const MIB = 1024 ** 2
  expect(options.l2.adapters.map(({ limits }) => limits)).toMatchObject([
    { storeBudgetBytes: MIB, storePendingBytes: 2 * MIB, loadBudgetBytes: 3 * MIB, loadPendingBytes: 4 * MIB },
    { storeBudgetBytes: 0, storePendingBytes: 0, loadBudgetBytes: 0, loadPendingBytes: 0 },
  ])
  expect(options.l2.adapters.map(({ limits }) => [limits.admitTouches, limits.writePolicy])).toEqual([
    [2, 'back'],
    [1, 'through'],
  ])
  expect(options.quota).toEqual({ l1DefaultBytes: 5 * MIB, l2DefaultBytes: 0 })
  const { capacityBytes } = options.l1
  expect(options.transfer).toMatchObject({ storePendingBytes: capacityBytes, loadPendingBytes: capacityBytes })
  expect(options.transfer).toMatchObject({ skipSlowerTokensPerSecond: 8000, writeBackRatio: 0.7 })
})

it('names the variable at fault', () => {
  const error = refusal([], { KVTIER_HTTP_PORT: 'eighty' })
  expect(error.message).toBe('KVTIER_HTTP_PORT is "eighty": write a whole number from 0 to 65535')
})

it('refuses an unknown variable of ours', () => {
  expect(refusal([], { KVTIER_HTTP_PROT: '1' }).message).toContain('did you mean KVTIER_HTTP_PORT?')
})

const BAD_FILES: [file: string, field: string, says: string][] = [
  ['l1: {sise: 1GiB}', 'l1.sise', 'did you mean l1.size?'],
  ['l1-size: 1GiB', 'l1-size', 'did you mean l1.size?'],
  ['l1: {size: [1]}', 'l1.size', 'write a size'],
  ['l1: 4GiB', 'l1', 'not a mapping'],
  ['l1: {size: }', 'l1.size', 'has no value'],
  ['http: {port: "x"}', 'http.port', 'whole number'],
  ['prometheus: {enabled: yes please}', 'prometheus.enabled', 'true or false'],
  ['observability: {enabled: true}', '--observability-enabled', 'write --otlp-endpoint'],
  ['- a', 'kvtier.yaml', 'not a mapping'],
  ['a: [', '--config', 'not valid YAML'],
  ['log-level: info\nlog-level: debug', '--config', 'not valid YAML'],
  ['log-level: *nothing', '--config', 'not valid YAML'],
  ['l2: {name: a}', 'l2', 'write a list'],
  ['l2: [3]', 'l2', 'write each adapter as a mapping'],
]

it.each(BAD_FILES)('refuses the file %j, naming %s', (file, field, says) => {
  const error = refusal([], {}, file)
  expect(error.code).toBe('CONFIG_INVALID')
  expect(error.detail.field).toContain(field)
  expect(error.message).toContain(says)
  expect(error.message).not.toContain('\n')
})

it('cuts L1 into whole pages a model, and only when it is asked to', () => {
  const sizeOf = (argv: string[]) => load(['--l1-size', '10000KiB', ...argv]).options.l1.capacityBytes
  expect(sizeOf([])).toBe(10_000 * 1024)
  expect(sizeOf(['--l1-isolation-models', '3'])).toBe(10_000 * 1024)
  expect(sizeOf(['--l1-isolation', 'model', '--l1-isolation-models', '3'])).toBe(3 * 833 * 4096)
})
