import { readFileSync } from 'node:fs'
import { open, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { CacheError } from '../core/errors.ts'
import { checkSalt } from '../engine/model-registry.ts'
import { QUOTAS_MAX, type QuotaKeeper, type SaltQuota } from '../engine/quotas.ts'

/** How a quota stands in the file; an absent limit is the default. */
interface Entry {
  readonly cache_salt: string
  readonly l1_bytes?: number
  readonly l2_bytes?: number
}

/** Quotas of cache salts in a data directory: one file, replaced as a whole, so that a crash leaves the old or the new. */
export class QuotaFile implements QuotaKeeper {
  readonly #path: string

  constructor(dataDir: string) {
    this.#path = join(dataDir, 'quotas.json')
  }

  /** None when there is no file. @throws CacheError CONFIG_INVALID when it cannot be understood. */
  read(): SaltQuota[] {
    try {
      const contents = JSON.parse(readFileSync(this.#path, 'utf8')) as { version?: unknown; quotas?: unknown }
      if (contents.version !== 1 || !Array.isArray(contents.quotas)) throw new Error('it is not a list of quotas')
      if (contents.quotas.length > QUOTAS_MAX) throw new Error(`it has more than ${QUOTAS_MAX} quotas`)
      return contents.quotas.map(quotaOf)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      const reason = error instanceof Error ? error.message : String(error)
      const message = `${this.#path} cannot be read: ${reason}; mend it, or remove it and set the quotas again`
      throw new CacheError('CONFIG_INVALID', message, { field: '--data-dir' }, error)
    }
  }

  /** One at a time. @throws CacheError DATA_DIR_UNWRITABLE */
  async write(quotas: readonly SaltQuota[]): Promise<void> {
    const entries: Entry[] = quotas.map(({ salt, l1Bytes, l2Bytes }) => ({
      cache_salt: salt,
      ...(l1Bytes === undefined ? {} : { l1_bytes: l1Bytes }),
      ...(l2Bytes === undefined ? {} : { l2_bytes: l2Bytes }),
    }))
    try {
      await replace(this.#path, `${JSON.stringify({ version: 1, quotas: entries }, null, 1)}\n`)
    } catch (error) {
      const reason = (error as NodeJS.ErrnoException).code ?? String(error)
      const message = `${this.#path} cannot be written (${reason}); the quota was not changed`
      throw new CacheError('DATA_DIR_UNWRITABLE', message, { field: '--data-dir' }, error)
    }
  }
}

async function replace(path: string, contents: string): Promise<void> {
  const temporary = `${path}.tmp`
  const file = await open(temporary, 'w', 0o600)
  try {
    await file.writeFile(contents)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(temporary, path)
  const directory = await open(dirname(path), 'r')
  await directory.sync().finally(() => directory.close())
}

function quotaOf(value: unknown): SaltQuota {
  const entry = value as Partial<Record<keyof Entry, unknown>> | null
  const salt = entry?.cache_salt
  if (typeof salt !== 'string') throw new Error('an entry has no cache_salt')
  checkSalt(salt)
  return { salt, l1Bytes: bytesOf(entry?.l1_bytes), l2Bytes: bytesOf(entry?.l2_bytes) }
}

function bytesOf(value: unknown): number | undefined {
  if (value === undefined) return undefined
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw new Error('a limit is not a number of bytes')
  return value as number
}
