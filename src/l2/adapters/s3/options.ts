/** An s3 adapter, as configured. Units in the names. */
export interface S3AdapterOptions {
  readonly type: 's3'
  /** Bytes of objects at most, headers included. 0 = no limit. */
  readonly capacityBytes: number
  /** `http(s)://HOST[:PORT]` of the service, without the bucket. '' = AWS, by the region. */
  readonly endpoint: string
  readonly bucket: string
  readonly region: string
  /** Begins the name of every object; '' or ends with '/'. Letters, digits, '.', '_', '-' and '/'. */
  readonly prefix: string
  /** Where the bucket's name stands: in the path, or before the host name. */
  readonly addressing: 'path' | 'virtual-host'
  /** '' = from the file. */
  readonly accessKey: string
  readonly secretKey: string
  /** Environment variable that the secret key came from; '' = none. */
  readonly secretKeyEnv: string
  /** Of temporary credentials. */
  readonly sessionToken: string
  readonly sessionTokenEnv: string
  /** In the form of `~/.aws/credentials`. '' = none. */
  readonly credentialsFile: string
  /** Section of that file. */
  readonly profile: string
  /** Certificates of the authority that signed the server's. '' = those of the system. */
  readonly caFile: string
  /** Whether the signature covers the bytes of objects. auto: over plain http it does. */
  readonly payload: 'auto' | 'signed' | 'unsigned'
  /** index: a lookup costs no request, and sees what others stored after a listing. head: it asks for what it lacks. */
  readonly lookup: 'index' | 'head'
  /** How often the bucket is listed anew. 0 = only at open. */
  readonly relistMs: number
  /** Longer objects are uploaded in parts of this size. */
  readonly partBytes: number
  /** Requests under way in one direction, and connections of it. */
  readonly parallelism: number
  /** Corrupt records kept for a look, the newest ones. 0 = they are deleted. */
  readonly quarantineObjects: number
}

export const S3_DEFAULT: Omit<S3AdapterOptions, 'bucket'> = {
  type: 's3',
  capacityBytes: 0,
  endpoint: '',
  region: 'us-east-1',
  prefix: 'kvtier/',
  addressing: 'path',
  accessKey: '',
  secretKey: '',
  secretKeyEnv: '',
  sessionToken: '',
  sessionTokenEnv: '',
  credentialsFile: '',
  profile: 'default',
  caFile: '',
  payload: 'auto',
  lookup: 'index',
  relistMs: 600_000,
  partBytes: 16 * 1024 * 1024,
  parallelism: 16,
  quarantineObjects: 16,
}
