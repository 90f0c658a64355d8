// Numbers for people: three digits or so. Scripts read --json, which has all of them.

/** 1234567 as `1.23M`; whole numbers below a thousand as they are. */
export function shortNumber(value: number): string {
  for (const [size, suffix] of [
    [1e9, 'G'],
    [1e6, 'M'],
    [1e3, 'k'],
  ] as const) {
    if (value >= size) return `${(value / size).toPrecision(3)}${suffix}`
  }
  if (Number.isInteger(value)) return String(value)
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3)
}

/** 1.50 GiB; whole bytes below 1 KiB. */
export function shortBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'] as const
  let unit = 0
  let value = bytes
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024
    unit += 1
  }
  return `${unit === 0 ? value : value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${units[unit]}`
}

/** Seconds as `3 s`, `2 min 5 s` or `1 h 4 min`. */
export function shortDuration(seconds: number): string {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}
