const SIZES = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']
const COUNTS = ['', ' k', ' M', ' G', ' T']

/**
 * A share as a percentage; a dash when there is none.
 *
 * @param {number | null} ratio
 */
export function percentText(ratio) {
  return ratio === null ? '–' : `${(ratio * 100).toFixed(1)} %`
}

/**
 * Bytes to three digits, in powers of 1024.
 *
 * @param {number} bytes
 */
export function bytesText(bytes) {
  return scaled(bytes, 1024, SIZES, ' ')
}

/**
 * Bytes a second, in powers of 1000, as data sheets have it.
 *
 * @param {number | null} bytes
 */
export function rateText(bytes) {
  return bytes === null ? '–' : scaled(bytes, 1000, ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s'], ' ')
}

/**
 * A count to three digits.
 *
 * @param {number | null} count
 */
export function countText(count) {
  return count === null ? '–' : scaled(count, 1000, COUNTS, '')
}

/**
 * Time of day, to the second.
 *
 * @param {number} wallMs
 */
export function timeText(wallMs) {
  return new Date(wallMs).toLocaleTimeString([], { hour12: false })
}

/**
 * @param {number} value
 * @param {number} step
 * @param {readonly string[]} units
 * @param {string} space
 */
function scaled(value, step, units, space) {
  let rest = value
  let at = 0
  while (rest >= step && at < units.length - 1) {
    rest /= step
    at += 1
  }
  const digits = Number.isInteger(rest) && rest < 1000 ? `${rest}` : rest.toFixed(rest < 10 ? 2 : rest < 100 ? 1 : 0)
  return `${digits}${space}${units[at]}`
}
