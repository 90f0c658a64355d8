import { nearestName } from '../config/option-names.ts'
import { type FlagSpec, parseFlags } from '../config/parse-flags.ts'
import type { CacheError } from '../core/errors.ts'
import { type CommandCall, type CommandSpec, type OptionSpec, optionsOf } from './command.ts'
import { usageError } from './report-error.ts'

/** Finds the command that a command line names: one word, or two for a command of a group. */
export function splitCommand(
  argv: readonly string[],
  commands: readonly CommandSpec[],
): { spec?: CommandSpec; group?: string; rest: readonly string[] } {
  const [first = '', second = ''] = argv
  const pair = commands.find((command) => command.name === `${first} ${second}`)
  if (pair !== undefined) return { spec: pair, rest: argv.slice(2) }
  const single = commands.find((command) => command.name === first)
  if (single !== undefined) return { spec: single, rest: argv.slice(1) }
  const isGroup = commands.some((command) => command.name.startsWith(`${first} `))
  return isGroup ? { group: first, rest: argv.slice(1) } : { rest: argv }
}

export function unknownCommand(argv: readonly string[], commands: readonly CommandSpec[]): CacheError {
  const [first = '', second = ''] = argv
  if (first === '--json') return usageError('--json needs a command before it; see kvtier --help')
  if (first.startsWith('-')) return usageError(`${first} is not an option; see kvtier --help`)
  const group = commands.filter((command) => command.name.startsWith(`${first} `))
  const typed = group.length > 0 ? `${first} ${second}` : first
  const names = (group.length > 0 ? group : commands).map((command) => command.name)
  const near = nearestName(typed, names)
  return usageError(
    `there is no command "${typed}"; ${near === undefined ? 'see kvtier --help' : `did you mean ${near}?`}`,
  )
}

/** How an option looks to the parser. */
export function flagOf(option: OptionSpec): FlagSpec {
  return {
    flag: `--${option.name}`,
    isSwitch: option.value === undefined || option.isSwitch === true,
    isRepeatable: option.isRepeatable === true,
  }
}

/** Parses and checks what follows a command's name. @throws CacheError CONFIG_INVALID */
export async function parseCommand(spec: CommandSpec, argv: readonly string[]): Promise<Omit<CommandCall, 'terminal'>> {
  const specs = await optionsOf(spec)
  const { values, positionals } = parseFlags(argv, specs.map(flagOf))
  const options: Record<string, string | true> = {}
  for (const option of specs) {
    const given = values.get(`--${option.name}`)
    if (given !== undefined) setOption(options, option, given)
  }
  checkPositionals(spec, positionals)
  return { spec, options, positionals, argv, isJson: options.json === true }
}

function setOption(options: Record<string, string | true>, option: OptionSpec, given: readonly string[]): void {
  const value = given.join(',') // more than one only for repeatable options
  const flag = `--${option.name}`
  if (option.value === undefined) {
    if (value !== 'true' && value !== 'false') throw usageError(`${flag} takes no value, but got "${value}"`, flag)
    if (value === 'true') options[option.name] = true
    return
  }
  const words = option.isRepeatable === true ? value.split(',') : [value]
  const wrong = words.find((word) => option.choices?.includes(word) === false)
  if (option.choices !== undefined && wrong !== undefined) {
    throw usageError(`${flag} is "${wrong}"; write one of: ${option.choices.join(', ')}`, flag)
  }
  options[option.name] = value
}

function checkPositionals(spec: CommandSpec, given: readonly string[]): void {
  const usage = `see kvtier ${spec.name} --help`
  for (const [index, { name, choices, isOptional }] of spec.positionals.entries()) {
    const value = given[index]
    if (value === undefined) {
      if (isOptional) continue
      throw usageError(
        `${spec.name} needs ${name}; ${choices === undefined ? usage : `write one of: ${choices.join(', ')}`}`,
      )
    }
    if (choices !== undefined && !choices.includes(value)) {
      throw usageError(`${spec.name} cannot take "${value}" as ${name}; write one of: ${choices.join(', ')}`)
    }
  }
  const extra = given[spec.positionals.length]
  if (extra !== undefined) throw usageError(`${spec.name} does not take "${extra}"; ${usage}`)
}
