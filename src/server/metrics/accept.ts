import type { TextFormat } from '../../metrics/prometheus.ts'

interface Choice {
  readonly name: string
  readonly parameters: ReadonlyMap<string, string>
  readonly quality: number
}

/** The entries of an Accept or Accept-Encoding header; what cannot be read is left out. */
function choices(header: string | undefined): Choice[] {
  return (header ?? '').split(',').flatMap((entry) => {
    const [name = '', ...rest] = entry.split(';').map((part) => part.trim().toLowerCase())
    if (name === '') return []
    const parameters = new Map(rest.map((part) => part.split('=', 2).map((side) => side.trim()) as [string, string]))
    const quality = Number(parameters.get('q') ?? 1)
    return Number.isNaN(quality) ? [] : [{ name, parameters, quality }]
  })
}

const OPENMETRICS_VERSIONS = [undefined, '1.0.0', '0.0.1']

/** OpenMetrics when the client names it and likes plain text no better; plain text otherwise. */
export function formatFor(accept: string | undefined): TextFormat {
  const all = choices(accept)
  const open = all.find(
    ({ name, parameters }) =>
      name === 'application/openmetrics-text' && OPENMETRICS_VERSIONS.includes(parameters.get('version')),
  )
  const plain = all.find(({ name }) => name === 'text/plain')
  return open !== undefined && open.quality > 0 && open.quality >= (plain?.quality ?? 0) ? 'openmetrics' : 'text'
}

export function takesGzip(acceptEncoding: string | undefined): boolean {
  const all = choices(acceptEncoding)
  const named = all.find(({ name }) => name === 'gzip') ?? all.find(({ name }) => name === '*')
  return named !== undefined && named.quality > 0
}
