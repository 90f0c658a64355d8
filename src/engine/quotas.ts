import { assert } from '../core/assert.ts'
import type { Clock } from '../core/clock.ts'
import { CacheError } from '../core/errors.ts'
import type { SpaceId } from '../core/ids.ts'
import type { L1Cache } from '../l1/l1-cache.ts'
import type { QuotaChanges, TenantUsage } from '../l2/adapter.ts'
import type { AdapterSet, Attached } from '../l2/adapter-set.ts'
import type { MetricCells } from '../metrics/cells.ts'
import type { QuotaOptions } from './options.ts'

/** Salts with a quota of their own at most. */
export const QUOTAS_MAX = 10_000
/** How long an adapter may take to tell its tenants, or to take a quota. */
const ASK_MS = 5_000
const REFRESH_MS = 1_000

/** What one cache salt may hold, over all its models. 0 = no limit; undefined = the default for unknown salts. */
export interface SaltQuota {
  readonly salt: string
  readonly l1Bytes: number | undefined
  /** In each adapter, for each keeps a copy. */
  readonly l2Bytes: number | undefined
}

/** A salt as people see it. Limits are those in force; 0 = no limit. */
export interface SaltReport {
  readonly salt: string
  /** It has a quota of its own; otherwise the default counts for it. */
  readonly isOwn: boolean
  readonly l1Bytes: number
  readonly l2Bytes: number
  readonly l1UsageBytes: number
  /** By adapter that keeps account of salts, in the order they are asked. */
  readonly l2Usage: readonly { readonly adapter: string; readonly bytes: number }[]
}

export interface QuotaParts {
  readonly options: QuotaOptions
  readonly l1: L1Cache
  readonly adapters: AdapterSet
  readonly cells: MetricCells
  readonly clock: Clock
  readonly onError: (where: string, error: unknown) => void
}

/** Where quotas outlive the process. */
export interface QuotaKeeper {
  read(): SaltQuota[]
  /** Keeps all quotas, these and no others. Rejects with a CacheError. */
  write(quotas: readonly SaltQuota[]): Promise<void>
}

/**
 * The quotas of cache salts in L1 and L2: set over HTTP, kept for the next start, and put in force where the bytes are.
 *
 *   set -> kept on disk -> L1: at the next reservation, and by the eviction loop
 *                       -> each adapter: at once
 *
 * L2 usage is what adapters told at the last `refresh`.
 */
export class Quotas {
  readonly #parts: QuotaParts
  readonly #own = new Map<string, SaltQuota>()
  /** By adapter name: what each tenant holds there. */
  readonly #usage = new Map<string, readonly TenantUsage[]>()
  /** Rows of the metric cells that `refresh` wrote last, by adapter row. */
  readonly #rows = new Map<number, Set<number>>()
  /** By adapter name: salts of changes that it did not take. */
  readonly #untold = new Map<string, Set<string>>()
  #keeper: QuotaKeeper | undefined
  #lastSave: Promise<unknown> = Promise.resolve()
  #refreshing: Promise<void> | undefined
  #refreshedMs = Number.NEGATIVE_INFINITY

  constructor(parts: QuotaParts) {
    this.#parts = parts
    parts.l1.spaces.salts.setDefault(limitOf(parts.options.l1DefaultBytes))
  }

  /** Takes the quotas of earlier starts, and keeps those to come. Before adapters are attached. */
  keepIn(keeper: QuotaKeeper): void {
    this.#keeper = keeper
    for (const quota of keeper.read()) {
      this.#own.set(quota.salt, quota)
      this.#applyL1(quota.salt)
    }
  }

  /** Sets the quota of a salt, or with `undefined` gives it the default again. @returns false when it had none to end. */
  set(salt: string, quota: Omit<SaltQuota, 'salt'> | undefined): Promise<boolean> {
    const done = this.#lastSave.then(() => this.#set(salt, quota))
    this.#lastSave = done.catch(() => undefined)
    return done
  }

  /** The quota and usage of a salt, known or not. */
  async report(salt: string): Promise<SaltReport> {
    await this.refresh()
    return this.#reportOf(salt, this.#usageBySalt())
  }

  /** Every salt that has a quota of its own or holds something, the largest in L1 first; at most `countMax`. */
  async list(countMax: number): Promise<{ readonly salts: SaltReport[]; readonly leftOut: number }> {
    await this.refresh()
    const usage = this.#usageBySalt()
    const { salts: l1 } = this.#parts.l1.spaces
    const names = new Set([...this.#own.keys(), ...usage.keys()])
    for (let row = 0; row < l1.count; row += 1) if (l1.usageBytes(row) > 0) names.add(l1.saltOf(row))
    const all = [...names].map((salt) => this.#reportOf(salt, usage))
    all.sort((a, b) => b.l1UsageBytes - a.l1UsageBytes || (a.salt < b.salt ? -1 : 1))
    return { salts: all.slice(0, countMax), leftOut: Math.max(0, all.length - countMax) }
  }

  /** What a salt without a quota of its own may hold; 0 = no limit. */
  get defaults(): QuotaOptions {
    return this.#parts.options
  }

  /** Puts every quota in force in an adapter that was just attached, or reached: nothing is stored there before. */
  attach(name: string): void {
    const attached = this.#parts.adapters.find(name)
    const isUnlimited = this.#own.size === 0 && this.#parts.options.l2DefaultBytes === 0
    if (attached?.isReached === true && !isUnlimited) void this.#tellAll(attached, [])
  }

  /** Asks adapters what tenants hold, and writes the metric cells. One at a time; never rejects. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  /** Refreshes once a second. Run by the lease loop of a server. */
  sweep(): void {
    const nowMs = this.#parts.clock.nowMs()
    if (nowMs - this.#refreshedMs < REFRESH_MS) return
    this.#refreshedMs = nowMs
    void this.refresh()
  }

  async #set(salt: string, quota: Omit<SaltQuota, 'salt'> | undefined): Promise<boolean> {
    const had = this.#own.has(salt)
    if (quota === undefined && !had) return false
    if (!had && this.#own.size >= QUOTAS_MAX) {
      throw new CacheError('NO_ROOM', `${QUOTAS_MAX} salts have a quota, which is the limit`, { field: 'cache_salt' })
    }
    const next = new Map(this.#own)
    if (quota === undefined) next.delete(salt)
    else next.set(salt, { salt, ...quota })
    await this.#keeper?.write([...next.values()])
    if (quota === undefined) this.#own.delete(salt)
    else this.#own.set(salt, { salt, ...quota })
    this.#applyL1(salt)
    this.#writeLimits()
    const changes = { bySalt: [[salt, optionalLimit(quota?.l2Bytes)] as const] }
    await Promise.all(this.#live().map((attached) => this.#tell(attached, changes)))
    return true
  }

  #applyL1(salt: string): void {
    this.#parts.l1.spaces.salts.setLimit(salt, optionalLimit(this.#own.get(salt)?.l1Bytes))
  }

  /** @param ended salts whose quota may have ended without the adapter knowing. */
  #tellAll(attached: Attached, ended: Iterable<string>): Promise<void> {
    const bySalt = new Map<string, number | undefined>([...ended].map((salt) => [salt, undefined]))
    for (const { salt, l2Bytes } of this.#own.values()) bySalt.set(salt, optionalLimit(l2Bytes))
    return this.#tell(attached, { defaultBytes: limitOf(this.#parts.options.l2DefaultBytes), bySalt: [...bySalt] })
  }

  /** Never rejects: what an adapter did not hear is told again at the next refresh. */
  async #tell(attached: Attached, changes: QuotaChanges): Promise<void> {
    const { name, adapter } = attached
    try {
      await this.#inTime(async (signal) => adapter.setQuotas?.(changes, signal))
      attached.refresh()
    } catch (error) {
      this.#parts.onError('quotas', error)
      const untold = this.#untold.get(name) ?? new Set()
      for (const [salt] of changes.bySalt) untold.add(salt)
      this.#untold.set(name, untold)
    }
  }

  async #refresh(): Promise<void> {
    const live = this.#live()
    for (const [name, salts] of [...this.#untold]) {
      this.#untold.delete(name)
      const attached = live.find((one) => one.name === name)
      if (attached !== undefined) await this.#tellAll(attached, salts)
    }
    await Promise.all(
      live.map(async ({ name, adapter }) => {
        try {
          const tenants = await this.#inTime(async (signal) => adapter.tenants?.(signal))
          this.#usage.set(name, tenants ?? [])
        } catch (error) {
          this.#parts.onError('quotas', error)
        }
      }),
    )
    for (const name of [...this.#usage.keys()]) if (!live.some((one) => one.name === name)) this.#usage.delete(name)
    for (const attached of live) this.#writeUsage(attached)
    this.#writeLimits()
  }

  async #inTime<T>(operation: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const abort = new AbortController()
    const timer = this.#parts.clock.schedule(ASK_MS, () => abort.abort())
    try {
      return await operation(abort.signal)
    } finally {
      timer.cancel()
    }
  }

  #live(): Attached[] {
    return this.#parts.adapters
      .all()
      .filter((one) => !one.isGone && one.isReached && one.adapter.setQuotas !== undefined)
  }

  /** Tenants that no request has named since the start share the row of those past the label limit. */
  #writeUsage({ name, row }: Attached): void {
    const { tenants, l2Tenants } = this.#parts.cells
    const bytes = new Map<number, number>()
    for (const { model, salt, bytes: held } of this.#usage.get(name) ?? []) {
      const at = row * tenants.rows + (tenants.find(model, salt) ?? tenants.fold)
      bytes.set(at, (bytes.get(at) ?? 0) + held)
    }
    for (const at of this.#rows.get(row) ?? []) if (!bytes.has(at)) l2Tenants.set(at, 'usageBytes', 0)
    for (const [at, held] of bytes) l2Tenants.set(at, 'usageBytes', held)
    this.#rows.set(row, new Set(bytes.keys()))
  }

  #writeLimits(): void {
    const { l1, cells } = this.#parts
    for (let id = 0; id < l1.spaces.count; id += 1) {
      const { tenant, salt } = l1.spaces.spec(id as SpaceId)
      if (tenant === cells.tenants.fold) continue
      const { l1Bytes, l2Bytes } = this.#limitsOf(salt)
      cells.engineTenants.set(tenant, 'l1QuotaBytes', l1Bytes)
      cells.engineTenants.set(tenant, 'l2QuotaBytes', l2Bytes)
    }
  }

  #limitsOf(salt: string): { l1Bytes: number; l2Bytes: number } {
    const own = this.#own.get(salt)
    const { l1DefaultBytes, l2DefaultBytes } = this.#parts.options
    return { l1Bytes: own?.l1Bytes ?? l1DefaultBytes, l2Bytes: own?.l2Bytes ?? l2DefaultBytes }
  }

  #usageBySalt(): Map<string, { adapter: string; bytes: number }[]> {
    const bySalt = new Map<string, { adapter: string; bytes: number }[]>()
    for (const { name } of this.#live()) {
      for (const { salt, bytes } of this.#usage.get(name) ?? []) {
        const rows = bySalt.get(salt) ?? []
        const row = rows.find((one) => one.adapter === name)
        if (row === undefined) rows.push({ adapter: name, bytes })
        else row.bytes += bytes
        bySalt.set(salt, rows)
      }
    }
    return bySalt
  }

  #reportOf(salt: string, usage: Map<string, { adapter: string; bytes: number }[]>): SaltReport {
    const l1UsageBytes = this.#parts.l1.spaces.salts.usageOf(salt)
    return { salt, isOwn: this.#own.has(salt), ...this.#limitsOf(salt), l1UsageBytes, l2Usage: usage.get(salt) ?? [] }
  }
}

/** 0 stands for no limit where people write it. */
function limitOf(bytes: number): number {
  assert(bytes >= 0, 'a quota below nothing')
  return bytes === 0 ? Number.POSITIVE_INFINITY : bytes
}

function optionalLimit(bytes: number | undefined): number | undefined {
  return bytes === undefined ? undefined : limitOf(bytes)
}
