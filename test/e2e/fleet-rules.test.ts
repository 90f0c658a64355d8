import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { stringify } from 'yaml'
import { PANEL_ROWS, withMatchers } from '../../src/fleet/panels.ts'
import { ALERT_RULES } from '../../src/fleet/rules.ts'
import { needProgram } from '../support/debian-prometheus.ts'
import { REPOSITORY } from '../support/source-tree.ts'

const RULES = join(REPOSITORY, 'config/prometheus')

function promtool(...argv: string[]) {
  const { status, stdout, stderr } = spawnSync('promtool', argv, { encoding: 'utf8' })
  return { status, printed: `${stdout}${stderr}` }
}

it('the alerts fire when they should and stay silent when they should not', (context) => {
  needProgram(context, 'promtool')
  const { status, printed } = promtool('test', 'rules', join(RULES, 'rules.test.yaml'))
  expect(status, printed).toBe(0)
  const cases = readFileSync(join(RULES, 'rules.test.yaml'), 'utf8')
  for (const { alert } of ALERT_RULES) expect(cases).toContain(alert)
})

it('promtool takes the rules and the scrape configuration', (context) => {
  needProgram(context, 'promtool')
  const { status, printed } = promtool('check', 'config', join(RULES, 'prometheus.yaml'))
  expect(status, printed).toBe(0)
})

it('every expression of the dashboard is valid PromQL', (context) => {
  needProgram(context, 'promtool')
  const folder = mkdtempSync(join(tmpdir(), 'kvtier-panels-'))
  const queries = PANEL_ROWS.flatMap((row) => row.panels).flatMap((panel) => panel.queries)
  const rules = queries.map(({ expr }, at) => ({
    record: `panel:query:${at}`,
    expr: withMatchers(expr, 'job=~".*"', 'job=~".*",model_name=~".*"'),
  }))
  writeFileSync(join(folder, 'panels.yaml'), stringify({ groups: [{ name: 'panels', rules }] }))
  const { status, printed } = promtool('check', 'rules', join(folder, 'panels.yaml'))
  rmSync(folder, { recursive: true })
  expect(status, printed).toBe(0)
  expect(printed).toContain(`${queries.length} rules found`)
})
