import { readFileSync, statSync } from 'node:fs'
import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'

export interface WatchedFileParts<T> {
  readonly path: string
  /** The option that names the file, for errors. */
  readonly flag: string
  readonly clock: Clock
  /** @throws Error that says what is wrong with the text, and repeats nothing of it: it may be a secret. */
  readonly parse: (text: string) => T
  /** Told when the file cannot be read any more: what was read last stays in force. */
  readonly onError: (error: unknown) => void
  /** Told that the file had changed and was read again. */
  readonly onReload?: (flag: string) => void
}

/** How long a value is used before the file is looked at again. */
const FRESH_MS = 1000

/**
 * What a file holds, read again when it changes: secrets are rotated while the engine runs. Mounted Kubernetes secrets
 * are links that are swapped; what counts is the file behind them.
 */
export class WatchedFile<T> {
  readonly #parts: WatchedFileParts<T>
  #version: string
  #value: T
  #lookedMs: number

  /** Reads it. @throws CacheError CONFIG_INVALID */
  constructor(parts: WatchedFileParts<T>) {
    this.#parts = parts
    this.#lookedMs = parts.clock.nowMs()
    this.#version = this.#fileVersion()
    this.#value = this.#read()
  }

  /** What it holds, as of a second ago. */
  value(): T {
    const nowMs = this.#parts.clock.nowMs()
    if (nowMs - this.#lookedMs >= FRESH_MS) {
      this.#lookedMs = nowMs
      this.refresh()
    }
    return this.#value
  }

  /** Looks at the file now. @returns whether it had changed and could be read. */
  refresh(): boolean {
    try {
      const version = this.#fileVersion()
      if (version === this.#version) return false
      this.#value = this.#read()
      this.#version = version
      this.#parts.onReload?.(this.#parts.flag)
      return true
    } catch (error) {
      this.#parts.onError(error)
      return false
    }
  }

  #read(): T {
    const { path, flag, parse } = this.#parts
    try {
      return parse(readFileSync(path, 'utf8'))
    } catch (error) {
      throw new CacheError('CONFIG_INVALID', `${flag} is "${path}": ${reasonOf(error)}`, { field: flag })
    }
  }

  #fileVersion(): string {
    const facts = statSync(this.#parts.path, { bigint: true, throwIfNoEntry: false })
    return facts === undefined ? 'absent' : `${facts.ino} ${facts.size} ${facts.mtimeNs}`
  }
}

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException
  return code === undefined ? message : `it cannot be read (${code}); check the path and its permissions`
}
