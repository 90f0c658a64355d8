import { expect, it } from 'vitest'
import { CATALOGUE } from '../../src/metrics/catalogue.ts'
import { Exposition } from '../../src/metrics/exposition.ts'
import { ProcessMetrics } from '../../src/metrics/process-metrics.ts'
import { LINT_ALLOWED, needProgram, promtoolCheck } from '../support/debian-prometheus.ts'
import { parseExposition } from '../support/exposition-parser.ts'
import { recordEverything } from '../support/full-cells.ts'

it('promtool objects to nothing but the four names in GB per second', async (context) => {
  needProgram(context, 'promtool')
  const exposition = new Exposition(recordEverything().reader, new ProcessMetrics())
  const { body } = await exposition.render('text')
  const shown = parseExposition(body.toString()).types
  expect(CATALOGUE.filter(({ name }) => !shown.has(name))).toEqual([])
  const { names, lines, status } = promtoolCheck(body)
  expect(names, lines.join('\n')).toEqual([...LINT_ALLOWED].sort())
  expect(status).toBe(3) // lint only; 1 would be a text that cannot be parsed
})
