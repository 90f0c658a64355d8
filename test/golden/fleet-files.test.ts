import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { dashboardText, rulesText } from '../../src/fleet/texts.ts'
import { REPOSITORY } from '../support/source-tree.ts'

it.each([
  ['config/grafana/kvtier.json', dashboardText],
  ['config/prometheus/rules.yaml', rulesText],
])('%s is what its code makes (npm run docs writes it)', (file, text) => {
  expect(readFileSync(join(REPOSITORY, file), 'utf8')).toBe(text())
})
