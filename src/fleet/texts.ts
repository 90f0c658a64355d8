import { stringify } from 'yaml'
import { grafanaDashboard } from './dashboard.ts'
import { ruleGroups } from './rules.ts'

const HEAD = '# Written by: kvtier print rules. Checked by promtool, with the cases of rules.test.yaml.\n'

/** The Grafana dashboard, as the file to import. */
export function dashboardText(): string {
  return `${JSON.stringify(grafanaDashboard(), null, 2)}\n`
}

/** Recording and alerting rules, as a Prometheus rule file. */
export function rulesText(): string {
  return HEAD + stringify(ruleGroups(), { lineWidth: 0 })
}
