import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { CATALOGUE } from '../../src/metrics/catalogue.ts'
import { Exposition } from '../../src/metrics/exposition.ts'
import { ProcessMetrics } from '../../src/metrics/process-metrics.ts'
import { needProgram } from '../support/debian-prometheus.ts'
import { parseExposition } from '../support/exposition-parser.ts'
import { recordEverything } from '../support/full-cells.ts'

const ALLOWED = ['l0_l1_store', 'l0_l1_load', 'l2_store', 'l2_load'].map(
  (path) => `cache_mp_${path}_throughput_GB_per_second`,
)

it('promtool objects to nothing but the four names in GB per second', async (context) => {
  needProgram(context, 'promtool')
  const exposition = new Exposition(recordEverything().reader, new ProcessMetrics())
  const { body } = await exposition.render('text')
  const shown = parseExposition(body.toString()).types
  expect(CATALOGUE.filter(({ name }) => !shown.has(name))).toEqual([])
  const { stdout, stderr, status } = spawnSync('promtool', ['check', 'metrics'], { input: body, encoding: 'utf8' })
  const complaints = `${stdout}${stderr}`.split('\n').filter((line) => line !== '')
  const names = new Set(complaints.map((line) => line.split(' ')[0]))
  expect([...names].sort(), complaints.join('\n')).toEqual([...ALLOWED].sort())
  expect(status).toBe(3) // lint only; 1 would be a text that cannot be parsed
})
