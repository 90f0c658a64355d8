import { resolve } from 'node:path'
import {
  REDIS_DEFAULT as DEFAULT,
  parseRedisAddress,
  parseRedisUrl,
  type RedisAdapterOptions,
} from '../../l2/adapters/redis/options.ts'
import { boolean, bytes, duration, type Field, integer, Refusal, text } from '../fields.ts'
import { formatBytes, formatDurationMs } from '../units.ts'
import { type BackendSyntax, words } from './adapter-entry.ts'
import { capacityField } from './capacity-field.ts'

/** `type=redis`: objects in Redis or Valkey, one server or a Cluster. */
export const redisSyntax: BackendSyntax<RedisAdapterOptions> = {
  fields: {
    url: text('url', '', 'redis://HOST[:PORT][/DATABASE]; rediss:// for TLS. User and password may stand before HOST.'),
    isCluster: boolean('cluster', DEFAULT.isCluster, 'The server is a node of a Cluster; the others are found by it.'),
    nodes: words('nodes', 'Further nodes of the Cluster to ask for the others, HOST:PORT.'),
    username: text('username', '', 'User of the ACL. Default: the default user.', { minimum: 0 }),
    password: text('password', '', 'Password. Rather a file or a variable: others may read command lines.', {
      minimum: 0,
    }),
    passwordFile: text('password-file', '', 'File with the password, read at every connect.', { minimum: 0 }),
    passwordEnv: text('password-env', '', 'Environment variable with the password.', { minimum: 0 }),
    tlsCaFile: text('tls-ca', '', 'PEM file of the authorities trusted. Default: those of the system.', { minimum: 0 }),
    tlsCertFile: text('tls-cert', '', 'PEM file of the certificate to show the server.', { minimum: 0 }),
    tlsKeyFile: text('tls-key', '', 'PEM file of its key.', { minimum: 0 }),
    prefix: text('prefix', DEFAULT.prefix, 'Of every key. Engines with one prefix share objects.', { maximum: 100 }),
    capacityBytes: capacityField,
    connections: integer(
      'connections',
      DEFAULT.connections,
      { minimum: 1, maximum: 64 },
      'For objects, to each server.',
    ),
    pipelineBytes: bytes(
      'pipeline',
      formatBytes(DEFAULT.pipelineBytes),
      'Bytes in flight on one connection.',
      64 * 1024,
    ),
    connectTimeoutMs: time('connect-timeout', DEFAULT.connectTimeoutMs, 10, 'For a connection to open and log in.'),
    rescanMs: time('rescan', DEFAULT.rescanMs, 1_000, 'How often what others wrote and deleted is counted anew.'),
    quarantineMs: time('quarantine', DEFAULT.quarantineMs, 0, 'How long a corrupt record is kept; 0s = it is deleted.'),
  },
  fixed: {},
  required: { url: 'redis://127.0.0.1:6379', capacity: '10GiB' },
  secrets: ['password'],
  finish: (options, name, known) => {
    const url = takeUrl(options)
    const path = (file: string) => (file === '' ? '' : resolve(known.machine.workingDirectory, file))
    const { tlsCertFile, tlsKeyFile, tlsCaFile, passwordFile, nodes, prefix } = options
    if (options.nodes.length > 0 && !options.isCluster) {
      throw new Refusal(`${name} has nodes but no cluster=true; write it, or remove nodes`)
    }
    for (const node of nodes) {
      if (parseRedisAddress(node) === undefined) throw new Refusal('nodes is wrong: write HOST:PORT+HOST:PORT')
    }
    if ((tlsCertFile === '') !== (tlsKeyFile === '')) throw new Refusal('write both tls-cert and tls-key, or neither')
    if (`${tlsCaFile}${tlsCertFile}` !== '' && !url.isTls) {
      throw new Refusal('tls-ca and tls-cert need TLS: write the url with rediss://')
    }
    if (url.database !== 0 && options.isCluster) throw new Refusal('a Cluster has database 0 only; remove it from url')
    if (!/^[\w.:/-]+$/.test(prefix)) throw new Refusal('write prefix with letters, digits, ".", ":", "_", "/" and "-"')
    return {
      ...options,
      url: url.shown,
      username: options.username || url.username,
      password: takePassword(options, url.password, (variable) => known.env(variable)),
      passwordFile: path(passwordFile),
      tlsCaFile: path(tlsCaFile),
      tlsCertFile: path(tlsCertFile),
      tlsKeyFile: path(tlsKeyFile),
    }
  },
}

function takeUrl({ url }: RedisAdapterOptions) {
  const target = parseRedisUrl(url)
  if (target === undefined) throw new Refusal('url is wrong: write redis://HOST:PORT, or rediss://HOST:PORT for TLS')
  const host = target.host.includes(':') ? `[${target.host}]` : target.host
  const shown = `redis${target.isTls ? 's' : ''}://${host}:${target.port}/${target.database}`
  return { ...target, shown }
}

/** The password from the one place that has it. */
function takePassword(
  { password, passwordFile, passwordEnv }: RedisAdapterOptions,
  ofUrl: string,
  env: (variable: string) => string | undefined,
): string {
  const places = [ofUrl, password, passwordFile, passwordEnv].filter((place) => place !== '')
  if (places.length > 1) throw new Refusal('write the password once: in url, password, password-file or password-env')
  if (passwordEnv === '') return password || ofUrl
  const value = env(passwordEnv)
  if (!value) throw new Refusal(`password-env is wrong: the environment has no ${passwordEnv}; set it`)
  return value
}

function time(key: string, fallbackMs: number, minimumMs: number, help: string): Field<number> {
  return duration(key, formatDurationMs(fallbackMs), { minimumMs, maximumMs: 86_400_000 }, help)
}
