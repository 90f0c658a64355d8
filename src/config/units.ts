const BYTE_UNITS: Readonly<Record<string, number>> = {
  B: 1,
  KB: 1000,
  MB: 1000 ** 2,
  GB: 1000 ** 3,
  TB: 1000 ** 4,
  KIB: 1024,
  MIB: 1024 ** 2,
  GIB: 1024 ** 3,
  TIB: 1024 ** 4,
}

const DURATION_UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
}

/** Bytes of `512MiB`, `4 GB` or a bare number of bytes; undefined when it is none of these or not whole. */
export function parseBytes(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([kmgt]?i?b)?$/i.exec(text.trim())
  if (match === null) return undefined
  const unit = BYTE_UNITS[(match[2] ?? 'B').toUpperCase()]
  if (unit === undefined) return undefined
  const bytes = Number(match[1]) * unit
  return Number.isSafeInteger(bytes) ? bytes : undefined
}

/** Bytes in the largest binary unit that divides them, as `parseBytes` reads it. */
export function formatBytes(bytes: number): string {
  for (const unit of ['TiB', 'GiB', 'MiB', 'KiB']) {
    const size = BYTE_UNITS[unit.toUpperCase()]!
    if (bytes >= size && bytes % size === 0) return `${bytes / size}${unit}`
  }
  return `${bytes}B`
}

/** Milliseconds of `250ms`, `30s`, `5m`, `1h` or `7d`; undefined when it is none of these. */
export function parseDurationMs(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)$/.exec(text.trim())
  if (match === null) return undefined
  const milliseconds = Number(match[1]) * DURATION_UNITS_MS[match[2]!]!
  return Number.isSafeInteger(milliseconds) ? milliseconds : undefined
}

/** A duration in the largest unit that divides it, as `parseDurationMs` reads it. */
export function formatDurationMs(milliseconds: number): string {
  for (const unit of ['d', 'h', 'm', 's']) {
    const size = DURATION_UNITS_MS[unit]!
    if (milliseconds >= size && milliseconds % size === 0) return `${milliseconds / size}${unit}`
  }
  return `${milliseconds}ms`
}
