import { expect, it } from 'vitest'
import { COMMANDS } from '../../../src/cli/commands.ts'
import { commandHelp, mainHelp } from '../../../src/cli/help.ts'
import { WIDTH_COLUMNS } from '../../../src/cli/table.ts'

const OWN = ['replay', 'print', 'status', 'completion']

it('matches the golden text of kvtier --help', async () => {
  await expect(mainHelp(COMMANDS, false)).toMatchFileSnapshot('../../golden/cli/help.txt')
})

it.each(OWN)('matches the golden text of kvtier %s --help', async (name) => {
  const spec = COMMANDS.find((command) => command.name === name)!
  await expect(await commandHelp(spec, false)).toMatchFileSnapshot(`../../golden/cli/help-${name}.txt`)
})

it('keeps every help within the columns of a terminal, examples aside', async () => {
  for (const spec of COMMANDS) {
    const help = await commandHelp(spec, false)
    const text = help.split('\nExamples:')[0]!
    for (const line of text.split('\n')) expect(line.length, line).toBeLessThanOrEqual(WIDTH_COLUMNS)
  }
})

it('uses colours only when told that there are some', async () => {
  expect(mainHelp(COMMANDS, true)).toContain('\x1b[1mUsage:\x1b[22m')
  expect(mainHelp(COMMANDS, false)).not.toContain('\x1b')
})
