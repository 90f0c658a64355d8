/** @import { Overview } from '../overview.ts' */

/** How far back the charts go. */
export const HISTORY_MS = 15 * 60_000
/** Rates of charts are taken over this time, so that one poll without traffic leaves no hole. */
const SMOOTHED_MS = 10_000
/** Readings older than this are no base for a rate: the page was paused, or the engine was away. */
const BASE_MAX_MS = 90_000
/** A longer silence breaks the lines. */
const GAP_MS = 15_000

/** @typedef {'hit' | 'hitL0' | 'hitL1' | 'hitL2' | 'fill' | 'written' | 'evicted' | 'l0l1Store' | 'l0l1Load' | 'l2Store' | 'l2Load'} SeriesName */
/** @typedef {Record<SeriesName, number | null>} Rates shares, chunks a second and bytes a second; null = cannot be told. */

/** @type {readonly SeriesName[]} */
const NAMES = [
  'hit',
  'hitL0',
  'hitL1',
  'hitL2',
  'fill',
  'written',
  'evicted',
  'l0l1Store',
  'l0l1Load',
  'l2Store',
  'l2Load',
]

/**
 * The last quarter of an hour, as points for charts. Rates are differences of two overviews of one process: totals of
 * another one began at 0 again.
 */
export class History {
  /** Unix seconds, ascending. */
  times = /** @type {number[]} */ ([])
  /** One value for each time. */
  series = /** @type {Record<SeriesName, (number | null)[]>} */ (
    Object.fromEntries(NAMES.map((name) => [name, /** @type {(number | null)[]} */ ([])]))
  )
  #readings = /** @type {Overview[]} */ ([])

  /**
   * @param {Overview} now
   * @param {number} wallMs of the browser.
   */
  add(now, wallMs) {
    const last = this.#readings.at(-1)
    if (last !== undefined && (last.started_at !== now.started_at || now.time_ms < last.time_ms)) this.#readings = []
    this.#readings = this.#readings.filter((one) => now.time_ms - one.time_ms <= BASE_MAX_MS)
    this.#readings.push(now)
    const lastTime = this.times.at(-1)
    if (lastTime !== undefined && wallMs / 1000 - lastTime > GAP_MS / 1000) this.#push(lastTime + 1, null)
    this.#push(wallMs / 1000, this.ratesOver(SMOOTHED_MS))
    const oldest = (wallMs - HISTORY_MS) / 1000
    const surplus = this.times.findIndex((time) => time >= oldest)
    this.times.splice(0, surplus)
    for (const name of NAMES) this.series[name].splice(0, surplus)
  }

  /**
   * Rates between the newest overview and one that is so much older, or as old as there is.
   *
   * @param {number} spanMs
   * @returns {Rates}
   */
  ratesOver(spanMs) {
    const now = this.#readings.at(-1)
    if (now === undefined) return /** @type {Rates} */ (Object.fromEntries(NAMES.map((name) => [name, null])))
    const before = this.#readings.findLast((one) => now.time_ms - one.time_ms >= spanMs) ?? this.#readings[0]
    return ratesBetween(before ?? now, now)
  }

  /**
   * @param {number} time
   * @param {Rates | null} rates null breaks the lines.
   */
  #push(time, rates) {
    this.times.push(time)
    for (const name of NAMES) this.series[name].push(rates === null ? null : rates[name])
  }
}

/**
 * @param {Overview} before
 * @param {Overview} now
 * @returns {Rates}
 */
function ratesBetween(before, now) {
  const seconds = (now.time_ms - before.time_ms) / 1000
  /** @param {number} from @param {number} to */
  const rate = (from, to) => (seconds > 0 ? (to - from) / seconds : null)
  const asked = now.tokens.requested - before.tokens.requested
  /** @param {'hit' | 'hit_l0' | 'hit_l1' | 'hit_l2'} field */
  const share = (field) => (asked > 0 ? Math.min(1, (now.tokens[field] - before.tokens[field]) / asked) : null)
  /** @param {keyof Overview['paths']} path */
  const moved = (path) => rate(before.paths[path].bytes, now.paths[path].bytes)
  return {
    hit: share('hit'),
    hitL0: share('hit_l0'),
    hitL1: share('hit_l1'),
    hitL2: share('hit_l2'),
    fill: now.l1.capacity_bytes > 0 ? now.l1.usage_bytes / now.l1.capacity_bytes : null,
    written: rate(before.l1.written_chunks, now.l1.written_chunks),
    evicted: rate(before.l1.evicted_chunks, now.l1.evicted_chunks),
    l0l1Store: moved('l0_l1_store'),
    l0l1Load: moved('l0_l1_load'),
    l2Store: moved('l2_store'),
    l2Load: moved('l2_load'),
  }
}
