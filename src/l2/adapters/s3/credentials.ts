import { readFileSync } from 'node:fs'
import { CacheError } from '../../../core/errors.ts'
import type { S3AdapterOptions } from './options.ts'
import type { Credentials } from './sigv4.ts'

/**
 * Where the keys come from: the adapter's own options, which config fills in from the environment, or a file in the
 * form of `~/.aws/credentials`. A file is read again when the server refuses what it said: whatever rotates the keys
 * only has to write it anew.
 */
export class CredentialSource {
  readonly #options: S3AdapterOptions
  #current: Credentials | undefined

  constructor(options: S3AdapterOptions) {
    this.#options = options
  }

  /** @throws CacheError CONFIG_INVALID when there are none. */
  current(): Credentials {
    this.#current ??= this.#read()
    return this.#current
  }

  /** Reads the file again. False when there is none, or it says what it said. */
  refresh(): boolean {
    if (this.#options.credentialsFile === '') return false
    const before = this.#current
    this.#current = this.#read()
    return JSON.stringify(before) !== JSON.stringify(this.#current)
  }

  #read(): Credentials {
    const { accessKey, secretKey, sessionToken, credentialsFile, profile } = this.#options
    if (credentialsFile !== '') return readCredentialsFile(credentialsFile, profile)
    return checked({ accessKey, secretKey, sessionToken }, 'access-key', 'write access-key and secret-key')
  }
}

function checked(credentials: Credentials, field: string, fix: string): Credentials {
  if (credentials.accessKey !== '' && credentials.secretKey !== '') return credentials
  throw new CacheError('CONFIG_INVALID', `an s3 adapter has no credentials: ${fix}`, { field })
}

/** One profile of a file in the form of `~/.aws/credentials`. */
function readCredentialsFile(path: string, profile: string): Credentials {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'error'
    const message = `the credentials file ${path} cannot be read (${code}): write another credentials-file`
    throw new CacheError('CONFIG_INVALID', message, { field: 'credentials-file' }, error)
  }
  const values = new Map<string, string>()
  let section = ''
  for (const line of text.split(/\r?\n/)) {
    const header = /^\s*\[\s*([^\]]*?)\s*\]/.exec(line)
    if (header !== null) section = header[1]!.replace(/^profile\s+/, '')
    const pair = /^\s*([a-z_]+)\s*=\s*(.*?)\s*$/i.exec(line)
    if (pair !== null && section === profile) values.set(pair[1]!.toLowerCase(), pair[2]!)
  }
  const found = {
    accessKey: values.get('aws_access_key_id') ?? '',
    secretKey: values.get('aws_secret_access_key') ?? '',
    sessionToken: values.get('aws_session_token') ?? '',
  }
  const fix = `${path} needs aws_access_key_id and aws_secret_access_key below [${profile}]`
  return checked(found, 'credentials-file', fix)
}
