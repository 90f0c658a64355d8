/** Where objects lie in Redis or Valkey, and how to get there. Paths are absolute. */
export interface RedisAdapterOptions {
  readonly type: 'redis'
  /** `redis://host[:port][/database]`, or `rediss://` for TLS. Without user and password. */
  readonly url: string
  /** `url` names a node of a Cluster; the others are found by it. */
  readonly isCluster: boolean
  /** Further nodes of the Cluster to ask for the others, as host:port. */
  readonly nodes: readonly string[]
  /** ACL user; empty = the default user. */
  readonly username: string
  /** Empty = none, or the one of `passwordFile`. */
  readonly password: string
  /** Read at every connect, so that a new password takes effect; a newline at its end is not part of it. Empty = none. */
  readonly passwordFile: string
  /** The environment variable that `password` was taken from; empty = none. */
  readonly passwordEnv: string
  /** PEM file of the authorities that the server's certificate is checked against; empty = those of the system. */
  readonly tlsCaFile: string
  /** PEM files of the client's own certificate and key; both or none. */
  readonly tlsCertFile: string
  readonly tlsKeyFile: string
  /** Of every key. Engines with one prefix share their objects. */
  readonly prefix: string
  /** Bytes of objects under the prefix at most, headers included. 0 = no limit. */
  readonly capacityBytes: number
  /** Connections to each server for objects; one more carries the questions. */
  readonly connections: number
  /** Bytes sent or asked for on one connection and not yet answered, at most; one object always passes. */
  readonly pipelineBytes: number
  readonly connectTimeoutMs: number
  /** How often the objects under the prefix are counted anew, because others may write and delete there. */
  readonly rescanMs: number
  /** How long a corrupt record is kept for a look; 0 = it is deleted. */
  readonly quarantineMs: number
}

export const REDIS_DEFAULT: Omit<RedisAdapterOptions, 'url'> = {
  type: 'redis',
  isCluster: false,
  nodes: [],
  username: '',
  password: '',
  passwordFile: '',
  passwordEnv: '',
  tlsCaFile: '',
  tlsCertFile: '',
  tlsKeyFile: '',
  prefix: 'kvtier:',
  capacityBytes: 0,
  connections: 2,
  pipelineBytes: 8 * 1024 ** 2,
  connectTimeoutMs: 2_000,
  rescanMs: 60_000,
  quarantineMs: 3_600_000,
}

/** A server of Redis or Valkey. */
export interface RedisAddress {
  readonly host: string
  readonly port: number
}

/** What a URL says. */
export interface RedisTarget extends RedisAddress {
  readonly isTls: boolean
  readonly database: number
  readonly username: string
  readonly password: string
}

/** Reads a URL; undefined when it is none of Redis. */
export function parseRedisUrl(text: string): RedisTarget | undefined {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    return undefined
  }
  const database = /^\/?(\d{0,9})$/.exec(url.pathname)
  const isRedis = url.protocol === 'redis:' || url.protocol === 'rediss:'
  if (!isRedis || url.hostname === '' || database === null || url.search !== '' || url.hash !== '') return undefined
  return {
    host: withoutBrackets(url.hostname),
    port: url.port === '' ? 6379 : Number(url.port),
    isTls: url.protocol === 'rediss:',
    database: Number(database[1]),
    username: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
  }
}

/** Reads host:port, with an IPv6 host in brackets or not; undefined when it is neither. */
export function parseRedisAddress(text: string): RedisAddress | undefined {
  const found = /^(.+):(\d{1,5})$/.exec(text)
  if (found === null) return undefined
  const port = Number(found[2])
  return port > 0 && port < 65_536 ? { host: withoutBrackets(found[1]!), port } : undefined
}

function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1')
}
