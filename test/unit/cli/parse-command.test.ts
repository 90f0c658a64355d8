import { expect, it } from 'vitest'
import type { CommandSpec } from '../../../src/cli/command.ts'
import { parseCommand } from '../../../src/cli/parse-command.ts'

const SPEC: CommandSpec = {
  name: 'paint',
  summary: 'Paints.',
  positionals: [
    { name: 'WALL', help: 'The wall.' },
    { name: 'COLOUR', help: 'The colour.', choices: ['red', 'blue'], isOptional: true },
  ],
  options: [
    { name: 'coats', value: 'N', help: 'How many.' },
    { name: 'finish', value: 'NAME', help: 'Which.', choices: ['matt', 'gloss'] },
    { name: 'dry', help: 'No paint.' },
  ],
  moreOptions: async () => [{ name: 'primer', value: 'BOOL', isSwitch: true, help: 'Prime first.' }],
  examples: [],
  load: async () => ({ run: async () => 0 }),
}

it('reads positionals, values, switches and --json', async () => {
  const call = await parseCommand(SPEC, ['east', '--coats=2', 'red', '--dry', '--finish', 'matt', '--primer', '--json'])
  expect(call.positionals).toEqual(['east', 'red'])
  expect(call.options).toMatchObject({ coats: '2', dry: true, finish: 'matt', primer: 'true' })
  expect(call.isJson).toBe(true)
})

it.each([
  [['east', '--coat', '2'], '--coat is not an option; did you mean --coats?'],
  [['east', '--coats'], '--coats has no value; write --coats VALUE'],
  [['east', '--finish', 'satin'], '--finish is "satin"; write one of: matt, gloss'],
  [['east', '--dry=maybe'], '--dry takes no value, but got "maybe"'],
  [['east', 'green'], 'paint cannot take "green" as COLOUR; write one of: red, blue'],
  [['east', 'red', 'more'], 'paint does not take "more"; see kvtier paint --help'],
  [[], 'paint needs WALL; see kvtier paint --help'],
])('refuses %j in a line that says what to write', async (argv, message) => {
  await expect(parseCommand(SPEC, argv)).rejects.toMatchObject({ code: 'CONFIG_INVALID', message })
})
