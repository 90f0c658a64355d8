import { COMMON_OPTIONS, type CommandSpec, type OptionSpec, optionsOf } from './command.ts'
import { textTable, WIDTH_COLUMNS, wrapText } from './table.ts'
import { styled } from './terminal.ts'

const COLUMNS = [{ title: '' }, { title: '', wraps: true }]

/** `kvtier --help`. */
export function mainHelp(commands: readonly CommandSpec[], hasColour: boolean): string {
  return [
    'kvtier - a tiered KV-cache engine that measures itself',
    '',
    ...section('Usage', '  kvtier COMMAND [OPTIONS]', hasColour),
    ...section('Commands', commandRows(commands), hasColour),
    ...section('Options', rows([...COMMON_OPTIONS.map(optionRow), ['--version', 'Show the version.']]), hasColour),
    ...section(
      'Examples',
      rows([
        ['kvtier serve', 'Start the engine with its defaults.'],
        ['kvtier replay trace.jsonl', 'Drive the whole engine with a request trace.'],
        ['kvtier print metrics', 'List every metric.'],
      ]),
      hasColour,
    ),
    'Exit codes: 0 fine, 1 failed at run time, 2 bad usage or configuration.',
    'kvtier COMMAND --help tells more about a command.',
  ].join('\n')
}

/** `kvtier token --help`: the commands of a group. */
export function groupHelp(group: string, commands: readonly CommandSpec[], hasColour: boolean): string {
  const members = commands.filter((command) => command.name.startsWith(`${group} `))
  return [
    ...section('Usage', `  kvtier ${group} COMMAND [OPTIONS]`, hasColour),
    ...section('Commands', commandRows(members), hasColour),
    `kvtier ${group} COMMAND --help tells more about a command.`,
  ].join('\n')
}

/** `kvtier COMMAND --help`. */
export async function commandHelp(spec: CommandSpec, hasColour: boolean): Promise<string> {
  const lines = [...wrapText(spec.summary, WIDTH_COLUMNS), '', ...section('Usage', `  ${usageLine(spec)}`, hasColour)]
  if (spec.description !== undefined) {
    for (const paragraph of spec.description.split('\n\n')) lines.push(...wrapText(paragraph, WIDTH_COLUMNS), '')
  }
  if (spec.positionals.length > 0) {
    const positionals = spec.positionals.map(({ name, help, choices }) => [name, withChoices(help, choices)] as const)
    lines.push(...section('Arguments', rows(positionals), hasColour))
  }
  lines.push(...section('Options', rows((await optionsOf(spec)).map(optionRow)), hasColour))
  if (spec.examples.length > 0) lines.push(...section('Examples', examples(spec), hasColour))
  return lines.join('\n').trimEnd()
}

export function usageLine(spec: CommandSpec): string {
  const positionals = spec.positionals.map(({ name, isOptional }) => (isOptional ? `[${name}]` : name))
  return ['kvtier', spec.name, ...positionals, '[OPTIONS]'].join(' ')
}

/** How an option is typed: `--speed N`. */
export function optionForm(option: OptionSpec): string {
  if (option.value === undefined) return `--${option.name}`
  return option.isSwitch ? `--${option.name}[=${option.value}]` : `--${option.name} ${option.value}`
}

function optionRow(option: OptionSpec): readonly [string, string] {
  const text = withChoices(option.help, option.choices)
  return [optionForm(option), option.default === undefined ? text : `${text} Default: ${option.default}.`]
}

function withChoices(help: string, choices: readonly string[] | undefined): string {
  return choices === undefined ? help : `${help} One of ${choices.join(', ')}.`
}

function section(title: string, body: string, hasColour: boolean): string[] {
  return [styled(`${title}:`, 'bold', hasColour), body, '']
}

function commandRows(commands: readonly CommandSpec[]): string {
  return rows(commands.map(({ name, summary }) => [name, summary] as const))
}

function rows(cells: readonly (readonly [string, string])[]): string {
  return textTable(COLUMNS, cells, 2)
}

function examples(spec: CommandSpec): string {
  return spec.examples.map(([line, what]) => `  # ${what}\n  ${line}`).join('\n')
}
