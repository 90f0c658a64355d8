import { describe, expect, it } from 'vitest'
import { grafanaDashboard } from '../../../src/fleet/dashboard.ts'
import { PANEL_ROWS, withMatchers } from '../../../src/fleet/panels.ts'
import { ALERT_RULES, RECORDING_RULES } from '../../../src/fleet/rules.ts'
import { CATALOGUE } from '../../../src/metrics/catalogue.ts'

/** Labels that Prometheus adds. */
const SCRAPED = ['job', 'instance', 'le']
const SUFFIXES = /_(bucket|sum|count)$/

const panels = PANEL_ROWS.flatMap((row) => row.panels)
const expressions = [
  ...panels.flatMap(({ title, queries }) => queries.map(({ expr }) => [title, expr] as const)),
  ...RECORDING_RULES.map(({ record, expr }) => [record, expr] as const),
  ...ALERT_RULES.map(({ alert, expr }) => [alert, expr] as const),
]

function metricOf(name: string) {
  return CATALOGUE.find((metric) => metric.name === name || metric.name === name.replace(SUFFIXES, ''))
}

describe.each(expressions)('the expression of %s', (_title, expr) => {
  it('names metrics that exist, histograms by their parts, and counters in a rate', () => {
    const names = expr.match(/cache_mp_\w+/g) ?? []
    for (const name of names) {
      const metric = metricOf(name)
      expect(metric, name).toBeDefined()
      expect(SUFFIXES.test(name) && metric!.name !== name, name).toBe(metric!.type === 'histogram')
    }
  })

  it('groups by labels that its metrics have', () => {
    const names = expr.match(/cache_mp_\w+/g) ?? []
    const labels = new Set(names.flatMap((name) => metricOf(name)?.labels ?? []))
    const grouped = [...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap((match) =>
      match[1]!.split(',').map((word) => word.trim()),
    )
    for (const label of grouped) {
      if (names.length > 0) expect([...labels, ...SCRAPED], label).toContain(label)
    }
  })

  it('asks for tenants only where there are some', () => {
    for (const [, name, matchers] of expr.matchAll(/(cache_mp_\w+)\{(\$\w+)/g)) {
      const isTenant = metricOf(name!)!.labels.includes('cache_salt')
      expect(matchers, name).toBe(isTenant ? '$tenant' : '$where')
    }
  })
})

it('says what each panel tells, and gives each its own title', () => {
  expect(new Set(panels.map(({ title }) => title)).size).toBe(panels.length)
  for (const { guide, title } of panels) expect(guide, title).toMatch(/^[A-Z].*\.$/)
})

it('leaves no variable in an expression', () => {
  for (const [title, expr] of expressions) expect(withMatchers(expr, 'a="b"', 'c="d"'), title).not.toContain('$')
})

it('places panels side by side without overlap', () => {
  const { panels: placed } = grafanaDashboard() as {
    panels: { gridPos: { x: number; y: number; w: number; h: number } }[]
  }
  const cells = new Set<string>()
  for (const { gridPos } of placed) {
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
        expect(x).toBeLessThan(24)
        expect(cells.has(`${x},${y}`)).toBe(false)
        cells.add(`${x},${y}`)
      }
    }
  }
})
